#include "assembly/eval_prompts.h"

#include "assembly/answering_model.h"
#include "assembly/companions.h"
#include "assembly/prompt_format.h"
#include "core/error.h"
#include "data/example.h"
#include "data/prepare.h"
#include "prompt/prompt_only.h"

namespace dml {
namespace {

// The ids of a text, and of the rest of a longer one that begins with it.
EvalPrompts::Continued split(std::vector<Token> context, std::vector<Token> whole) {
  whole.erase(whole.begin(), whole.begin() + std::min(std::ssize(whole), std::ssize(context)));
  return {std::move(context), std::move(whole)};
}

}  // namespace

AnsweringPrompts::AnsweringPrompts(const Recipe* recipe, const Tokenizer& tokenizer, const ModelSpec& spec,
                                   const std::string& generation_directory)
    : tokenizer_(tokenizer),
      vocabulary_(spec.vocab),
      ends_(end_tokens(spec, generation_directory)),
      dataset_(answering_dataset(recipe)) {
  if (recipe) templates_ = recipe->templates;
  if (!uses_chat_template(dataset_) || has_chat_template(recipe, dataset_, tokenizer_))
    strategy_ = make_prompt_strategy(
        answering_context(prompt_context(recipe ? recipe->data : DataSection{}, templates_, dataset_, tokenizer_)));
  space_ = strategy_ && text_before_answers(*strategy_, dataset_) == " ";
}

AnsweringPrompts::~AnsweringPrompts() = default;

std::vector<Token> AnsweringPrompts::raw_prompt(const std::string& text) const {
  std::vector<Token> ids = tokenizer_.encode(text, {.add_special = true}).ids;
  if (tokenizer_.adds_eos && !ids.empty() && tokenizer_.eos && ids.back() == *tokenizer_.eos) ids.pop_back();
  if (ids.empty() && prefix() >= 0) ids.push_back(prefix());
  return ids;
}

std::vector<Token> AnsweringPrompts::prompt(const Json& row, bool raw) const {
  const auto text = row.find("prompt");
  const bool plain = text != row.end() && text->is_string();
  std::vector<Token> ids;
  if (raw || !strategy_) {
    if (!plain)
      throw UserError(raw ? "the row has no 'prompt'"
                          : "the row has no 'prompt', and there is no template for anything else");
    ids = raw_prompt(text->get<std::string>());
  } else {
    ids = assemble(strategy_->prompt(question_row(row, dataset_)), tokenizer_).ids;
  }
  return checked(std::move(ids));
}

std::vector<Token> AnsweringPrompts::checked(std::vector<Token> ids) const {
  if (ids.empty()) throw UserError("the prompt is empty");
  for (Token id : ids)
    if (id >= vocabulary_)
      throw UserError("token '{}' has id {}, but the model's embedding has {} rows", tokenizer_.piece(id), id,
                      vocabulary_);
  return ids;
}

std::string AnsweringPrompts::answer(const std::vector<Token>& prompt, const std::vector<Token>& answer,
                                     bool raw) const {
  const auto decoder = tokenizer_.stream();
  const bool after_space = !raw && space_;
  if (after_space)
    for (Token id : prompt) decoder->next(id);
  std::string text;
  for (Token id : answer) text += decoder->next(id);
  text += decoder->finish();
  if (after_space && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::vector<Token> AnsweringPrompts::plain(const std::string& text) const {
  return tokenizer_.encode(text, {.parse_special = false}).ids;
}

Token AnsweringPrompts::prefix() const {
  return tokenizer_.bos ? *tokenizer_.bos : tokenizer_.eos ? *tokenizer_.eos : ends_.empty() ? -1 : ends_[0];
}

// Splits tokens as lm-evaluation-harness does: the ids of context and text encoded together, without as many as the
// context alone has.
EvalPrompts::Continued AnsweringPrompts::continued_text(const std::string& context, const std::string& text) const {
  const auto end = context.find_last_not_of(' ') + 1;  // 0 where there is nothing else
  const std::string front = context.substr(0, end), all = context + text;
  return split(raw_prompt(front), raw_prompt(all));
}

EvalPrompts::Continued AnsweringPrompts::continued(const Json& row, const std::string& text, bool raw) const {
  const bool plain_text = !strategy_ || (continues_text(dataset_) && !text_of(row, "prompt").empty());
  if (!raw && plain_text) prompt(row, raw);  // for its errors
  if (raw || plain_text) return continued_text(text_of(row, "prompt"), text);
  if (!uses_chat_template(dataset_)) return {prompt(row, raw), plain(text)};  // as instruction formats do in training
  Rendered asked = strategy_->prompt(question_row(row, dataset_));
  std::vector<Token> context = checked(assemble(asked, tokenizer_).ids);
  asked.segments.back().add_read((space_ ? " " : "") + text);
  return split(std::move(context), assemble(asked, tokenizer_).ids);
}

std::vector<Token> AnsweringPrompts::stop_tokens(bool raw) const {
  return dml::stop_tokens(raw ? TemplateSection{} : templates_, tokenizer_, ends_);
}

}  // namespace dml
