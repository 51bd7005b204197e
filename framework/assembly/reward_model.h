// A trained reward model: gives a text a number, or the steps of an answer the probability that they are right.
//
// Its folder is a model (config.json names …ForSequenceClassification or …ForTokenClassification) or an adapter
// (task_type SEQ_CLS or TOKEN_CLS) whose base adapter_config.json names.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assembly/base_model.h"
#include "core/json.h"
#include "prompt/strategy.h"
#include "tokenizer/tokenizer.h"

namespace dml {

class RewardModel {
 public:
  /// `base_model`: instead of the one that an adapter names. UserError where the folder is of no reward model.
  explicit RewardModel(const std::string& directory, const std::optional<std::string>& base_model = {});

  /// Whether it judges steps (TOKEN_CLS); else texts (SEQ_CLS).
  bool judges_steps() const { return model_->spec.head == HeadKind::token_classification; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  std::int64_t context() const { return model_->spec.max_positions; }

  /// The reward of a prompt with its answer, end token included: the head's output at the last token. The bits do not
  /// depend on other texts. UserError for a text without tokens, or longer than the context.
  double score(std::span<const Token> text);
  std::vector<double> score(std::span<const std::vector<Token>> texts);
  /// The probability that each step is right; `ends`: positions of the steps' last tokens, ascending.
  std::vector<double> step_scores(std::span<const Token> text, std::span<const std::int64_t> ends);

  /// Tokens of a conversation of {"role", "content"} with its answer, through the folder's chat template. UserError
  /// where it has none.
  std::vector<Token> ids(const Json& messages) const;
  /// Tokens of a prompt with an answer: of a conversation with this user message, or, without a template, of the two
  /// texts one after the other with EOS.
  std::vector<Token> ids(const std::string& prompt, const std::string& answer) const;

 private:
  void make_room(std::int64_t tokens, std::int64_t longest, std::int64_t labels, std::int64_t documents);
  void check_length(std::span<const Token> text) const;

  BaseModel base_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<PromptStrategy> template_;  // null: there is none
  std::unique_ptr<CausalLm> model_;
};

}  // namespace dml
