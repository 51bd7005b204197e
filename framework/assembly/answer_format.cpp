#include "assembly/answer_format.h"

#include <algorithm>

#include "assembly/companions.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/example.h"
#include "data/prepare.h"
#include "prompt/chat_template.h"
#include "prompt/prompt_only.h"

namespace dml {
namespace {

constexpr std::string_view kThink = "<think>", kThought = "</think>";

// The row with an empty content in messages that have none, only tool calls: some templates concatenate it.
Json with_contents(Json row) {
  for (Json& message : row["messages"])
    if (message.is_object() && (!message.contains("content") || message["content"].is_null())) message["content"] = "";
  return row;
}

// Removes what the template writes after the last text of the conversation.
void end_with_data(Segment& segment) {
  while (!segment.spans.empty() && segment.spans.back().markup) segment.spans.pop_back();
  segment.text.resize(segment.spans.empty() ? 0 : segment.spans.back().end);
}

// Makes a part of the text markup, as if the template had written it.
void make_markup(Segment& segment, std::size_t begin, std::size_t end) {
  std::vector<Segment::Span> spans;
  std::size_t at = 0;
  for (Segment::Span span : segment.spans) {
    const bool markup = span.markup;
    for (const std::size_t stop : {std::min(begin, span.end), std::min(end, span.end), span.end}) {
      if (stop <= at) continue;
      span.markup = markup || (at >= begin && at < end);
      span.end = stop;
      spans.push_back(span);
      at = stop;
    }
  }
  segment.spans = std::move(spans);
}

// The marks of a message's reasoning are tokens of the template, which the model wrote itself.
void mark_reasoning(Segment& segment, std::size_t message) {
  const std::size_t begin = segment.text.find_first_not_of(" \t\r\n", message);
  if (begin == segment.text.npos || segment.text.compare(begin, kThink.size(), kThink) != 0) return;
  make_markup(segment, begin, begin + kThink.size());
  if (const std::size_t end = segment.text.find(kThought, begin); end != segment.text.npos)
    make_markup(segment, end, end + kThought.size());
}

}  // namespace

std::string content_text(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return "";
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (content->is_array())
    for (const Json& part : *content)
      if (part.is_object()) text += part.value("text", "");
  return text;
}

AnswerFormat::AnswerFormat(const Recipe* recipe, const AnsweringModel& model, const BaseModel& base,
                           std::unique_ptr<Tokenizer> tokenizer, bool raw)
    : tokenizer_(std::move(tokenizer)),
      format_(raw ? AnsweringTemplate(recipe) : AnsweringTemplate(recipe, *tokenizer_)),
      vocab_(base.spec.vocab),
      context_(base.spec.max_positions),
      raw_(raw) {
  if (raw) format_.templates = {};
  if (chats()) chat_template_ = choose_chat_template(context_of(format_.dataset)).source;
  else if (format_.strategy && recipe) chat_template_ = portable_chat_template(*recipe, *tokenizer_);
  stop_tokens_ = dml::stop_tokens(format_.templates, *tokenizer_, end_tokens(base.spec, model.generation_directory));
  if (const auto eos = tokenizer_->eos; eos && *eos >= vocab_)
    log_warning("the tokenizer's EOS '{}' has id {}, but the model has rows for {} tokens only: it cannot generate it",
                tokenizer_->piece(*eos), *eos, vocab_);
}

PromptContext AnswerFormat::context_of(const DatasetEntry& dataset) const {
  return prompt_context(format_.data, format_.templates, dataset, *tokenizer_);
}

Json AnswerFormat::row_of_messages(const Json& messages) const {
  auto name = [&](const char* property) {
    auto it = format_.dataset.message_property_mappings.find(property);
    return it == format_.dataset.message_property_mappings.end() ? std::string(property) : it->second;
  };
  Json own = Json::array(), turns = Json::array();
  for (const Json& message : messages) {
    const Json& role = message["role"];
    own.push_back({{name("role"), role}, {name("content"), message["content"]}});
    turns.push_back({{"from", role == "user"        ? Json("human")
                              : role == "assistant" ? Json("gpt")
                                                    : role},
                     {"value", message["content"]}});
  }
  return {{"conversations", turns}, {format_.dataset.field_messages, own}};
}

std::vector<Token> AnswerFormat::prompt_ids(const Json& row) const {
  std::vector<Token> ids;
  const bool plain = row.contains("prompt") && row["prompt"].is_string() && !row.contains("messages");
  if (!format_.strategy) {
    if (row.contains("messages") || row.contains("conversations"))
      throw UserError("a conversation needs a chat template, and {}; give {{\"prompt\": …}}{}",
                      raw_ ? "--raw leaves it out" : "this model has none",
                      raw_ ? "" : ", or a recipe with chat_template");
    if (!plain && !(row.contains("text") && row["text"].is_string()))
      throw UserError(row.contains("prompt") ? "the row's 'prompt' must be a string"
                      : row.contains("text") ? "the row's 'text' must be a string"
                                             : "the row has neither a 'prompt' nor a 'text'");
    // Without --raw a prompt is plain text, as in training: special tokens in it are not parsed.
    ids = text_ids(row[plain ? "prompt" : "text"].get<std::string>(), raw_);
  } else {
    const auto prompt = row.find("prompt");
    if (prompt != row.end() && !prompt->is_string() && !prompt->is_array() &&
        !row.contains(format_.dataset.field_messages))
      throw UserError("the row's 'prompt' must be a string");
    ids = ids_of(question(row));
  }
  if (std::ssize(ids) >= context_)
    throw UserError("the prompt has {} tokens; the context is {} tokens, which leaves no room for an answer",
                    ids.size(), context_);
  return ids;
}

Rendered AnswerFormat::question(const Json& row) const {
  try {
    return format_.strategy->prompt(question_row(row, format_.dataset));
  } catch (const UserError&) {  // a conversation is no row of an instruction format
    if (chats() || chat_template_.empty() || !row.contains("messages")) throw;
  }
  return chat(row, {.keep_answers = false});
}

std::vector<Token> AnswerFormat::text_ids(const std::string& text, bool markup) const {
  return checked(open_text_ids(*tokenizer_, text, markup));
}

std::vector<Token> AnswerFormat::ids_of(const Rendered& rendered) const {
  return checked(assemble(rendered, *tokenizer_).ids);
}

std::vector<Token> AnswerFormat::checked(std::vector<Token> ids) const {
  require_rows(ids, *tokenizer_, vocab_);
  if (!ids.empty()) return ids;
  if (!tokenizer_->bos) throw UserError("the prompt is empty");
  return {*tokenizer_->bos};
}

Rendered AnswerFormat::chat(const Json& row, const ChatOptions& options) const {
  DatasetEntry entry;
  entry.type.name = "chat_template";
  if (uses_chat_template(format_.dataset)) {  // the dataset's template; rows have the form of the API
    entry.chat_template = format_.dataset.chat_template;
    entry.chat_template_jinja = format_.dataset.chat_template_jinja;
  } else {
    entry.chat_template_jinja = chat_template_;
  }
  PromptContext context = context_of(entry);
  context.keep_answers = options.keep_answers;
  for (auto& [key, value] : options.kwargs.items()) context.chat_template_kwargs[key] = value;
  const std::unique_ptr<PromptStrategy> strategy = make_chat_template(context);
  const auto render = [&](const Json& conversation) {
    return options.answer ? strategy->prompt(conversation) : strategy->render(conversation).at(0);
  };
  Rendered rendered;
  try {
    rendered = render(row);
  } catch (const UserError&) {
    const Json filled = with_contents(row);
    if (filled == row) throw;
    rendered = render(filled);
  }
  if (!options.continue_final_message) return rendered;
  const std::string said(trim(content_text(row["messages"].back())));
  Segment& segment = rendered.segments.back();
  end_with_data(segment);
  if (said.empty() || !trim(segment.text).ends_with(said))
    throw UserError("the chat template changes the last message, so the answer cannot continue it");
  mark_reasoning(segment, segment.text.rfind(said));
  segment.end_of_text = false;
  return rendered;
}

AnswerText AnswerFormat::text(const std::vector<Token>& prompt, bool continued, bool specials) const {
  return {*tokenizer_, prompt, {.continued = continued, .space = format_.space, .specials = specials}};
}

// The tokens' texts as text() decodes them: an answer alone begins without the space that SentencePiece puts in front,
// one that continues its prompt does not, and a space that the template wrote is no part of it.
std::shared_ptr<const TokenTree> AnswerFormat::token_texts(bool first) const {
  std::vector<std::string> out(static_cast<std::size_t>(tokenizer_->size()));
  std::vector<std::pair<Token, std::string>> specials;
  for (Token id = 0; id < tokenizer_->size(); ++id) {
    if (tokenizer_->is_special(id)) {
      if (!tokenizer_->piece(id).empty()) specials.emplace_back(id, tokenizer_->piece(id));
      continue;
    }
    std::string text = tokenizer_->text_bytes(id, first && !format_.space);
    if (first && format_.space && text.starts_with(' ')) text.erase(0, 1);
    out[static_cast<std::size_t>(id)] = std::move(text);
  }
  return std::make_shared<const TokenTree>(std::move(out), std::move(specials));
}

std::shared_ptr<TokenConstraint> AnswerFormat::constraint(std::shared_ptr<Automaton> automaton, bool continued) const {
  const std::lock_guard lock(making_);
  if (!texts_) texts_ = token_texts(false);
  if (continued) return std::make_shared<TokenConstraint>(std::move(automaton), texts_);
  if (!first_texts_) first_texts_ = token_texts(true);
  return std::make_shared<TokenConstraint>(std::move(automaton), texts_, first_texts_);
}

}  // namespace dml
