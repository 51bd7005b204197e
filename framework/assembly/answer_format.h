// How prompts become tokens and tokens become answers: the tokenizer, the chat template of the training, the stop
// tokens. dml infer and dml serve share it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "assembly/answer_text.h"
#include "assembly/answering_model.h"
#include "assembly/base_model.h"
#include "assembly/prompt_format.h"
#include "constraint/token_mask.h"
#include "core/json.h"
#include "prompt/strategy.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

namespace dml {

/// The text of a message's content: a string, or text parts.
std::string content_text(const Json& message);

class AnswerFormat {
 public:
  /// `recipe` may be null. `raw`: prompts are used without a template. `base`: the model that answers.
  AnswerFormat(const Recipe* recipe, const AnsweringModel& model, const BaseModel& base,
               std::unique_ptr<Tokenizer> tokenizer, bool raw);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<Token>& stop_tokens() const { return stop_tokens_; }
  /// Whether the dataset's rows are conversations of several messages.
  bool chats() const { return format_.strategy && uses_chat_template(format_.dataset); }
  /// Names the template, for messages.
  std::string description() const {
    return format_.strategy ? format_.strategy->description() : "prompts without a template";
  }

  /// Token ids of a row in the dataset's format. {"prompt": …} always works, {"messages": …} if there is a chat
  /// template. UserError for a row without a prompt, or one that fills the context.
  std::vector<Token> prompt_ids(const Json& row) const;
  /// Token ids of a text that the model continues; special tokens in it are parsed if `markup`.
  std::vector<Token> text_ids(const std::string& text, bool markup) const;
  /// The row, in the dataset's format, of a conversation of {"role": …, "content": …}.
  Json row_of_messages(const Json& messages) const;

  /// How a conversation is rendered.
  struct ChatOptions {
    Json kwargs = Json::object();         // chat_template_kwargs; override those of the training
    bool answer = true;                   // append the generation prompt
    bool keep_answers = true;             // if false, with `answer`: drops the assistant's last messages
    bool continue_final_message = false;  // the model continues the last message, the assistant's; without `answer`
  };
  /// Renders {"messages": …, "tools": …} of the OpenAI API. UserError when the template refuses them.
  Rendered chat(const Json& row, const ChatOptions& options) const;
  std::vector<Token> ids_of(const Rendered& rendered) const;
  /// The text of the chat template, of an instruction format the equivalent one; "" if there is none, and chat() cannot
  /// be called.
  const std::string& chat_template() const { return chat_template_; }

  /// A decoder of answers to prompt_ids() and chat(), or, if `continued`, of texts that continue `prompt`. `specials`:
  /// special tokens are printed.
  AnswerText text(const std::vector<Token>& prompt, bool continued, bool specials = false) const;
  /// Whether answers continue the text of their prompt.
  bool continues() const { return format_.continues(); }
  /// The token constraint of an automaton. The texts of all tokens are prepared once. Thread-safe.
  std::shared_ptr<TokenConstraint> constraint(std::shared_ptr<Automaton> automaton, bool continued) const;

 private:
  // The prompt of a row of the dataset's format, or of {"messages": …}.
  Rendered question(const Json& row) const;
  // The ids, or BOS alone. UserError where there is none, or for a token that the model does not have.
  std::vector<Token> checked(std::vector<Token> ids) const;
  PromptContext context_of(const DatasetEntry& dataset) const;
  std::shared_ptr<const TokenTree> token_texts(bool first) const;

  std::unique_ptr<Tokenizer> tokenizer_;
  AnsweringTemplate format_;
  std::vector<Token> stop_tokens_;
  std::string chat_template_;
  std::int64_t vocab_, context_;
  bool raw_;
  mutable std::mutex making_;
  mutable std::shared_ptr<const TokenTree> texts_, first_texts_;
};

}  // namespace dml
