// Rewards of completions: the recipe's `rewards`, checks and programs on rank 0, reward models on all ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "assembly/eval_prompts.h"
#include "assembly/reward_model.h"
#include "dist/comm.h"
#include "evaluate/rewards.h"
#include "recipe/recipe.h"
#include "train/objective/policy_objective.h"

namespace dml {

class RewardSources {
 public:
  /// UserError with a line for everything that is wrong. Reward models are only loaded when they are needed.
  explicit RewardSources(const PreferenceSection& section);

  /// In the order of the recipe.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<double>& weights() const { return weights_; }
  /// As Rewards has it.
  std::vector<std::string> problems_with(std::span<const EvalRow> rows) const { return checks_.problems_with(rows); }
  /// Loads the reward models. UserError where a folder holds none.
  void load();

  /// A completion with its row, and as text.
  struct Scored {
    const Completion& completion;
    const EvalRow& row;
    std::string text;
  };
  /// By reward: the value of each completion, the same on all ranks. A collective. UserError on all ranks, naming the
  /// row, where a program failed or a value is not a number.
  std::vector<std::vector<double>> of(const std::vector<Scored>& completions, const Tokenizer& tokenizer, Comm& comm);

 private:
  struct Model {
    std::size_t place;  // among the rewards
    std::string directory;
    std::unique_ptr<RewardModel> model;
  };
  void score_checks(const std::vector<Scored>& completions, std::vector<std::vector<double>>& out);
  void score_models(const std::vector<Scored>& completions, const Tokenizer& tokenizer, Comm& comm,
                    std::vector<std::vector<double>>& out);

  std::vector<std::string> names_;
  std::vector<double> weights_;
  Rewards checks_;
  std::vector<std::size_t> places_;  // of the checks, among the rewards
  std::vector<Model> models_;
};

/// The tokens of a completion as a reward model reads them: as they are where it has the same tokenizer, else through
/// its chat template, or as plain text.
std::vector<Token> judged_tokens(const RewardModel& model, const Json& row, const std::string& answer);

}  // namespace dml
