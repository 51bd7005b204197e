// Computes the recipe's `rewards` of completions: checks and programs on rank 0, reward models on all ranks.
#pragma once

#include <memory>
#include <optional>
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
  /// UserError with one line per problem. Reward models are not loaded before load().
  explicit RewardSources(const Recipe& recipe);

  /// Names of the rewards, in the order of the recipe.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<double>& weights() const { return weights_; }
  /// Loads the reward models. UserError if a folder holds none.
  void load();
  /// Checks the reward models as load() does, but reads no weights of their bases; enough for problems_with().
  void open();
  /// As Rewards::problems_with(), and what the opened or loaded models lack. `tokenizer`: of the model that samples.
  std::vector<std::string> problems_with(std::span<const EvalRow> rows, const Tokenizer& tokenizer) const;

  /// A completion, its row, and its decoded text.
  struct Scored {
    const Completion& completion;
    const EvalRow& row;
    std::string text;
  };
  /// Values by reward and completion, the same on all ranks. A collective. UserError on all ranks, naming the row, when
  /// a program failed or a value is not a number.
  std::vector<std::vector<double>> of(const std::vector<Scored>& completions, const Tokenizer& tokenizer, Comm& comm);

 private:
  struct Model {
    std::size_t place;  // index among the rewards
    std::string directory;
    std::unique_ptr<RewardModel> model;         // null before load()
    std::unique_ptr<Tokenizer> tokenizer = {};  // of open()
    std::optional<bool> same_tokens = {};       // as those of the model that samples, once they were compared
  };
  void score_checks(const std::vector<Scored>& completions, std::vector<std::vector<double>>& out);
  void score_models(const std::vector<Scored>& completions, const Tokenizer& tokenizer, Comm& comm,
                    std::vector<std::vector<double>>& out);

  std::string quantized_cache_path_;  // for bases of reward models
  std::vector<std::string> names_;
  std::vector<double> weights_;
  Rewards checks_;
  std::vector<std::size_t> places_;  // index of each check among the rewards
  std::vector<Model> models_;
};

/// Token ids of a completion for a reward model with another tokenizer or chat template: of its text, through the
/// reward model's chat template or as plain text.
std::vector<Token> reward_model_tokens(const RewardModel& model, const Json& row, const std::string& answer);

}  // namespace dml
