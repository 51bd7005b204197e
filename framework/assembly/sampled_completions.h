// Samples completions of a step's prompts with the engine, for rl: grpo; each rank samples some of the prompts. Scores
// them by the recipe's rewards.
//
// Random numbers are a function of seed, step and the completion's index in the step, so texts depend neither on the
// number of ranks nor on other completions; those of the first step equal `dml infer` with the same seed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assembly/eval_prompts.h"
#include "assembly/reward_sources.h"
#include "data/prepared.h"
#include "data/schedule.h"
#include "dist/strategy.h"
#include "generate/engine.h"
#include "recipe/recipe.h"
#include "train/objective/advantages.h"
#include "train/objective/policy_objective.h"

namespace dml {

class SampledCompletions : public Completions {
 public:
  /// All arguments outlive this object. UserError with one line per row for which a reward cannot be computed.
  SampledCompletions(const Recipe& recipe, const Prepared& prepared, const Schedule& schedule,
                     const Tokenizer& tokenizer, const ModelSpec& spec, DistributionStrategy& strategy, int ranks);

  Sampled sample(std::int64_t step, CausalLm& model, Comm& comm) override;
  Memory memory(CausalLm& model) override;

 private:
  /// The examples of the steps that are sampled together, one entry per completion, and the end of each step in that
  /// list.
  struct Plan {
    std::vector<std::int32_t> examples;
    std::vector<std::size_t> ends;
  };
  Plan plan_of(std::int64_t step) const;
  /// Fills rows_. UserError naming the rows that the rewards cannot judge.
  void read_rows(const Prepared& prepared);
  /// Computed once, so that the memory plan and the engine agree.
  const EngineOptions& options(CausalLm& model);
  void generate(std::int64_t step, const Plan& plan, CausalLm& model, Comm& comm, std::vector<Completion>& out);
  /// Rewards by reward function and completion.
  std::vector<std::vector<double>> score(const Plan& plan, const std::vector<Completion>& completions, Comm& comm);
  std::vector<NamedValue> measured(const std::vector<std::vector<double>>& rewards, const Advantages& advantages,
                                   const std::vector<Completion>& completions) const;
  void show(const Plan& plan, const std::vector<Completion>& completions, const Advantages& advantages) const;
  std::string text_of(const Completion& c) const;

  const Recipe& recipe_;
  const TrlSettings& trl_;
  Examples examples_;
  const Schedule& schedule_;
  const Tokenizer& tokenizer_;
  AnsweringPrompts prompts_;
  std::vector<Token> stops_;
  DistributionStrategy& strategy_;
  RewardSources rewards_;
  AdvantageSettings advantages_;
  std::vector<EvalRow> rows_;  // of the examples
  std::int64_t longest_prompt_ = 0, prompts_at_once_ = 0;
  std::optional<EngineOptions> options_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace dml
