// How prompts become tokens and tokens become answers: the tokenizer, the template of training, the tokens that end an
// answer. What infer and serve share.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "assembly/answering_model.h"
#include "assembly/base_model.h"
#include "assembly/prompt_format.h"
#include "constraint/token_mask.h"
#include "core/json.h"
#include "prompt/strategy.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// The text of one answer, token by token.
class AnswerText {
 public:
  /// The text that is certain after one more token, whole characters only.
  std::string next(Token id) { return shown(decoder_->next(id)); }
  std::string finish() { return shown(decoder_->finish()); }

 private:
  friend class AnswerFormat;
  std::string shown(std::string piece);
  std::unique_ptr<StreamDecoder> decoder_;
  bool drop_space_ = false;
};

class AnswerFormat {
 public:
  /// `recipe` may be null. `raw`: prompts as they are, without a template. `base` is the model's.
  AnswerFormat(const Recipe* recipe, const AnsweringModel& model, const BaseModel& base,
               std::unique_ptr<Tokenizer> tokenizer, bool raw);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<Token>& stop_tokens() const { return stop_tokens_; }
  /// Whether conversations of several messages are understood.
  bool chats() const { return strategy_ && uses_chat_template(dataset_); }
  /// Which template, for people.
  std::string description() const { return strategy_ ? strategy_->description() : "prompts without a template"; }

  /// A row as the dataset's format has it; {"prompt": …} always works, {"messages": …} where there is a chat template.
  /// UserError for a row that has no prompt, or one that fills the context.
  std::vector<Token> prompt_ids(const Json& row) const;
  /// A text that is continued: special tokens spelled out in it are parsed if `markup`.
  std::vector<Token> text_ids(const std::string& text, bool markup) const;
  /// The row of a conversation of {"role": …, "content": …}, under the names of the dataset's format.
  Json row_of_messages(const Json& messages) const;

  /// How a conversation is laid out.
  struct ChatOptions {
    Json kwargs = Json::object();         // chat_template_kwargs over those of training
    bool answer = true;                   // ends with the prompt for an answer
    bool continue_final_message = false;  // the last message is the assistant's, and is continued
  };
  /// {"messages": …, "tools": …} as the OpenAI API has them. UserError where the template refuses them.
  Rendered chat(const Json& row, const ChatOptions& options) const;
  std::vector<Token> ids_of(const Rendered& rendered) const;
  /// Its text; "" where there is none.
  const std::string& chat_template() const { return chat_template_; }

  /// For answers to prompt_ids() and chat(), or with `continued` for texts that continue `prompt`.
  /// `specials`: special tokens are shown.
  AnswerText text(const std::vector<Token>& prompt, bool continued, bool specials = false) const;
  bool continues() const { return continues_; }
  /// The tokens that the automaton allows; the texts of tokens are prepared once. From any thread.
  std::shared_ptr<TokenConstraint> constraint(std::shared_ptr<Automaton> automaton, bool continued) const;

 private:
  void check_ids(std::vector<Token>& ids) const;
  std::shared_ptr<const TokenTree> token_texts(bool first) const;

  std::unique_ptr<Tokenizer> tokenizer_;
  DataSection data_;
  TemplateSection templates_;
  DatasetEntry dataset_;
  std::unique_ptr<PromptStrategy> strategy_;
  std::vector<Token> stop_tokens_;
  std::string chat_template_;
  std::int64_t vocab_, context_;
  bool raw_;
  bool continues_ = false;  // the answer continues the text of the prompt
  bool space_ = false;      // the template writes a space before answers, which is not part of them
  mutable std::mutex making_;
  mutable std::shared_ptr<const TokenTree> texts_, first_texts_;
};

}  // namespace dml
