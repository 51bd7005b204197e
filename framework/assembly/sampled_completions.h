// Completions for rl: grpo: sampled by the engine behind the prompts of a step, every rank some of the prompts, and
// scored by the recipe's rewards.
//
// Random numbers go by seed, step and the completion's place in it, so texts depend neither on ranks nor on other
// completions; the first step's are those of `dml infer` with the same seed.
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
  /// All of it outlives this. UserError with a line for every row that a reward cannot be computed of.
  SampledCompletions(const Recipe& recipe, const Prepared& prepared, const Schedule& schedule,
                     const Tokenizer& tokenizer, const ModelSpec& spec, DistributionStrategy& strategy, int ranks);

  Sampled sample(std::int64_t step, CausalLm& model, Comm& comm) override;
  Memory memory(CausalLm& model) override;

 private:
  /// The examples of the steps that are sampled together, one entry for each completion, and where each step ends.
  struct Plan {
    std::vector<std::int32_t> examples;
    std::vector<std::size_t> ends;
  };
  Plan plan_of(std::int64_t step) const;
  /// Found once, so that what is planned is what is taken.
  const EngineOptions& options(CausalLm& model);
  void generate(std::int64_t step, const Plan& plan, CausalLm& model, Comm& comm, std::vector<Completion>& out);
  /// By reward and completion.
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
