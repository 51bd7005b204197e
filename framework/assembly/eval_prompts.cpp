#include "assembly/eval_prompts.h"

#include "assembly/answer_text.h"
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
      format_(recipe, tokenizer) {}

AnsweringPrompts::~AnsweringPrompts() = default;

std::vector<Token> AnsweringPrompts::text_ids(const std::string& text, bool raw) const {
  std::vector<Token> ids = open_text_ids(tokenizer_, text, raw);
  if (ids.empty() && prefix() >= 0) ids.push_back(prefix());
  return ids;
}

std::vector<Token> AnsweringPrompts::prompt(const Json& row, bool raw) const {
  const auto text = row.find("prompt");
  const bool plain = text != row.end() && text->is_string();
  std::vector<Token> ids;
  if (raw || !format_.strategy) {
    if (!plain)
      throw UserError(raw ? "the row has no 'prompt'"
                          : "the row has no 'prompt', and there is no template for anything else");
    ids = text_ids(text->get<std::string>(), raw);
  } else {
    ids = assemble(format_.strategy->prompt(question_row(row, format_.dataset)), tokenizer_).ids;
  }
  return checked(std::move(ids));
}

std::vector<Token> AnsweringPrompts::checked(std::vector<Token> ids) const {
  if (ids.empty()) throw UserError("the prompt is empty");
  require_rows(ids, tokenizer_, vocabulary_);
  return ids;
}

std::unique_ptr<StreamDecoder> AnsweringPrompts::answer_text(const std::vector<Token>& prompt, bool raw) const {
  return std::make_unique<AnswerText>(tokenizer_, prompt, AnswerText::Options{.space = !raw && format_.space});
}

std::vector<Token> AnsweringPrompts::plain(const std::string& text) const {
  return tokenizer_.encode(text, {.parse_special = false}).ids;
}

Token AnsweringPrompts::prefix() const {
  return tokenizer_.bos ? *tokenizer_.bos : tokenizer_.eos ? *tokenizer_.eos : ends_.empty() ? -1 : ends_[0];
}

// Splits tokens as lm-evaluation-harness does: the ids of context and text encoded together, without as many as the
// context alone has.
EvalPrompts::Continued AnsweringPrompts::continued_text(const std::string& context, const std::string& text,
                                                        bool raw) const {
  const auto end = context.find_last_not_of(' ') + 1;  // 0 where there is nothing else
  const std::string front = context.substr(0, end), all = context + text;
  return split(text_ids(front, raw), text_ids(all, raw));
}

EvalPrompts::Continued AnsweringPrompts::continued(const Json& row, const std::string& text, bool raw) const {
  const bool plain_text = !format_.strategy || (is_plain_text(format_.dataset) && !text_of(row, "prompt").empty());
  if (!raw && plain_text) prompt(row, raw);  // for its errors
  if (raw || plain_text) return continued_text(text_of(row, "prompt"), text, raw);
  Rendered asked = format_.strategy->prompt(question_row(row, format_.dataset));
  std::vector<Token> context = checked(assemble(asked, tokenizer_).ids);
  format_.strategy->add_answer(asked, (format_.space ? " " : "") + text);
  return split(std::move(context), assemble(asked, tokenizer_).ids);
}

std::vector<Token> AnsweringPrompts::stop_tokens(bool raw) const {
  return dml::stop_tokens(raw ? TemplateSection{} : format_.templates, tokenizer_, ends_);
}

}  // namespace dml
