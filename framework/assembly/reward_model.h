// A trained reward model: computes a reward for a text, or the probability that each step of an answer is right.
//
// Its folder holds a model (config.json names …ForSequenceClassification or …ForTokenClassification) or an adapter
// (task_type SEQ_CLS or TOKEN_CLS) whose base is named in adapter_config.json, and quantized as
// quantization_config.json says.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "core/json.h"
#include "prompt/strategy.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct RewardModelPlace;  // its base and its adapter (reward_model.cpp)

/// The files of a reward model, whose weights were not read.
struct RewardModelFiles {
  BaseModel base;
  std::vector<std::string> adapters;  // the folder, if it holds an adapter
  std::unique_ptr<Tokenizer> tokenizer;

  bool judges_steps() const { return base.spec.head == HeadKind::token_classification; }
};
/// Opens configs, tensor headers and tokenizer, and checks the names and shapes of the base's tensors; milliseconds for
/// any size. UserError when the folder holds no reward model.
RewardModelFiles open_reward_model(const std::string& directory);

class RewardModel {
 public:
  /// As open_reward_model(), and reads the weights; a base that is quantized is kept in `quantized_cache_path`.
  explicit RewardModel(const std::string& directory,
                       const std::string& quantized_cache_path = AdapterSection().quantized_cache_path);
  /// An adapter on the base of the recipe that trained it, instead of the one that it names.
  RewardModel(const std::string& directory, const Recipe& recipe);

  /// Whether it judges steps (TOKEN_CLS); else texts (SEQ_CLS).
  bool judges_steps() const { return model_->spec.head == HeadKind::token_classification; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::int64_t context() const { return model_->spec.max_positions; }

  /// The reward of a prompt with its answer, end token included: the head's output at the last token. Its bits do not
  /// depend on other texts. UserError for a text without tokens or longer than the context.
  double score(std::span<const Token> text);
  std::vector<double> score(std::span<const std::vector<Token>> texts);
  /// The probability that each step is right; `ends`: positions of the steps' last tokens, ascending.
  std::vector<double> step_scores(std::span<const Token> text, std::span<const std::int64_t> ends);

  /// Token ids of a conversation of {"role", "content"} with its answer, by the folder's chat template. UserError if
  /// there is none.
  std::vector<Token> ids(const Json& messages) const;
  /// Token ids of a prompt with its answer: as a conversation with this user message or, without a template, the two
  /// texts concatenated with EOS, as `type: passthrough` trains them.
  std::vector<Token> ids(const std::string& prompt, const std::string& answer) const;

 private:
  explicit RewardModel(const RewardModelPlace& place);
  void make_room(std::int64_t tokens, std::int64_t longest, std::int64_t labels, std::int64_t documents);
  void check_length(std::span<const Token> text) const;

  BaseModel base_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<PromptStrategy> template_;  // null if there is none
  std::unique_ptr<CausalLm> model_;
};

}  // namespace dml
