#include "serve/openai_answer.h"

#include <sys/random.h>

#include <algorithm>
#include <ctime>

#include "core/error.h"
#include "core/utf8.h"
#include "core/version.h"

namespace dml {
namespace {

HttpResponse stream_head() {
  return {.status = 200,
          .body = "",
          .type = "text/event-stream; charset=utf-8",
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

// Bytes of an incomplete character, spelled as OpenAI's completions do, so that tokens stay distinct:
// "bytes:\\xe2\\x80".
std::string token_name(const std::string& text) {
  if (find_invalid_utf8(text) == text.npos) return text;
  std::string out = "bytes:";
  for (unsigned char byte : text) out += fmt::format("\\x{:02x}", byte);
  return out;
}

}  // namespace

std::string fresh_id(const std::string& prefix) {
  static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  unsigned char random[24];
  if (getrandom(random, sizeof random, 0) != sizeof random) throw IoError("getrandom", "no random numbers");
  std::string id = prefix;
  for (unsigned char byte : random) id += kLetters[byte % kLetters.size()];
  return id;
}

TextAnswer::TextAnswer(Asked asked, const AnswerFormat& format, std::shared_ptr<HttpReply> reply, Metrics& metrics)
    : asked_(std::move(asked)),
      format_(format),
      reply_(std::move(reply)),
      metrics_(metrics),
      id_(fresh_id(asked_.chat ? "chatcmpl-" : "cmpl-")),
      created_(std::time(nullptr)),
      stops_(asked_.stops) {}

std::vector<EngineRequest> TextAnswer::take_requests() {
  std::vector<EngineRequest> out;
  for (std::size_t p = 0; p < asked_.prompts.size(); ++p) {
    for (int n = 0; n < asked_.n; ++n) {
      EngineRequest r = asked_.engine;
      r.prompt = asked_.prompts[p];
      r.max_new_tokens = std::min(r.max_new_tokens, asked_.context - std::ssize(r.prompt));
      r.number = static_cast<std::uint64_t>(n);
      r.report_prompt = r.report_prompt && n == 0;
      choices_.push_back(
          {.text = format_.text(asked_.prompts[p], asked_.continued, asked_.specials), .stop = StopText(stops_)});
      choices_.back().prompt_tokens = std::ssize(r.prompt);
      choices_.back().reply = ReplyParser(asked_.reply);
      out.push_back(std::move(r));
    }
  }
  if (asked_.stream) reply_->begin(stream_head());
  return out;
}

void TextAnswer::take_text(std::size_t i, const std::string& piece, bool last) {
  Choice& c = choices_[i];
  c.whole += piece;
  if (asked_.chat) parse(c, piece, last);
  if (asked_.stream && (!piece.empty() || last)) tell(i, piece, last);
}

// Adds text of a chat's reply to its reasoning, content and calls.
void TextAnswer::parse(Choice& c, const std::string& piece, bool last) {
  c.said = last ? c.reply.finish(c.finish == "length" || c.stop.stopped()) : c.reply.push(piece);
  if (asked_.one_call && c.calls.size() + c.said.calls.size() > 1) c.said.calls.resize(c.calls.empty() ? 1 : 0);
  c.content += c.said.content;
  c.reasoning += c.said.reasoning;
  c.calls.insert(c.calls.end(), c.said.calls.begin(), c.said.calls.end());
}

bool TextAnswer::on_event(std::size_t i, const EngineEvent& event) {
  Choice& c = choices_[i];
  if (c.done) return false;
  switch (event.kind) {
    case EngineEvent::Kind::read:
      c.cached = event.cached;
      c.prompt = event.prompt;
      if (asked_.echo) take_text(i, prompt_text(i), false);
      return true;
    case EngineEvent::Kind::token: {
      c.tokens.push_back(event.choice);
      const std::string piece = c.stop.next(c.text.next(event.choice.token));
      if (!c.stop.stopped()) {
        take_text(i, piece, false);
        if (c.reply.thinking()) c.reasoning_tokens = std::ssize(c.tokens);
        return true;
      }
      take_text(i, piece + (asked_.include_stop ? c.stop.found() : ""), false);
      end_choice(i, "stop");
      return false;
    }
    case EngineEvent::Kind::end:
      if (event.failure) {
        try {
          std::rethrow_exception(event.failure);
        } catch (const std::exception& e) {
          fail(e);
        }
        return false;
      }
      std::string rest = c.stop.next(c.text.finish());
      rest += c.stop.finish();
      take_text(i, rest, false);
      end_choice(i, event.reason == StopReason::length && !c.stop.stopped() ? "length" : "stop");
      return false;
  }
  return false;
}

void TextAnswer::end_choice(std::size_t i, std::string reason) {
  Choice& c = choices_[i];
  c.done = true;
  c.finish = std::move(reason);
  take_text(i, "", true);
  finish_if_done();
}

void TextAnswer::finish_if_done() {
  for (const Choice& c : choices_)
    if (!c.done) return;
  if (std::exchange(answered_, true)) return;
  if (asked_.stream) {
    end_stream();
    reply_->finish();
  } else {
    reply_->send({.status = 200, .body = dump(whole())});
  }
}

void TextAnswer::end_stream() {
  if (asked_.include_usage) {
    Json last = envelope(asked_.chat ? "chat.completion.chunk" : "text_completion");
    last["choices"] = Json::array();
    last["usage"] = usage();
    event(last);
  }
  reply_->write("data: [DONE]\n\n");
}

void TextAnswer::give_up(const ApiError& why) {
  if (std::exchange(answered_, true)) return;
  for (Choice& c : choices_) c.done = true;
  if (!asked_.stream) return reply_->send(why.response());
  end_with(why);
  reply_->finish();
}

void TextAnswer::fail(const std::exception& why) { give_up(error_of(why)); }
void TextAnswer::cut_off() { give_up(closing_error()); }

Json TextAnswer::usage() const {
  std::int64_t prompt = 0, answer = 0, cached = 0, reasoning = 0;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    answer += std::ssize(choices_[i].tokens);
    reasoning += choices_[i].reasoning_tokens;
    if (i % static_cast<std::size_t>(asked_.n) != 0) continue;  // a prompt counts once for all of its choices
    prompt += choices_[i].prompt_tokens;
    cached += choices_[i].cached;
  }
  Json out = {{"prompt_tokens", prompt},
              {"completion_tokens", answer},
              {"total_tokens", prompt + answer},
              {"prompt_tokens_details", {{"cached_tokens", cached}}}};
  if (asked_.chat) out["completion_tokens_details"] = {{"reasoning_tokens", reasoning}};
  return out;
}

Json TextAnswer::envelope(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", asked_.model_name}};
}

std::string TextAnswer::token_text(Token token) const {
  const Tokenizer& t = format_.tokenizer();
  return t.is_special(token) ? t.piece(token) : t.text_bytes(token, false);
}

void TextAnswer::finish_whole(Json& all, Json choices) const {
  all["system_fingerprint"] = std::string("dml-") + version();
  all["choices"] = std::move(choices);
  all["usage"] = usage();
}

// --- completions

std::string CompletionAnswer::prompt_text(std::size_t i) const {
  return asked_.texts[i / static_cast<std::size_t>(asked_.n)];
}

// Whether the log-probabilities of a choice's prompt, which come before those of its answer, are not known yet.
bool CompletionAnswer::lacks_prompt(std::size_t i) const {
  const auto n = static_cast<std::size_t>(asked_.n);
  return asked_.echo && asked_.logprobs && choices_[i - i % n].prompt.size() + 1 < asked_.prompts[i / n].size();
}

Json CompletionAnswer::logprobs(std::size_t i, std::size_t from) {
  if (!asked_.logprobs) return nullptr;
  Choice& c = choices_[i];
  Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(), offsets = Json::array();
  auto add = [&](const Sampler::Choice* choice, Token token) {
    const std::string text = token_text(token), name = token_name(text);
    tokens.push_back(name);
    logprobs.push_back(choice ? Json(clamped(choice->logprob)) : Json());
    offsets.push_back(c.offset);
    c.offset += static_cast<std::int64_t>(count_character_starts(text));
    Json best = choice ? Json::object() : Json();
    if (choice) {
      for (const TokenLogprob& t : choice->top) best[token_name(token_text(t.token))] = clamped(t.logprob);
      if (!choice->top.empty()) best[name] = clamped(choice->logprob);
    }
    top.push_back(asked_.top_logprobs > 0 ? best : Json());
  };
  const auto n = static_cast<std::size_t>(asked_.n);
  const std::vector<Token>& ids = asked_.prompts[i / n];
  const std::vector<Sampler::Choice>& prompt = choices_[i - i % n].prompt;  // stored with the first of its choices
  if (from == 0 && asked_.echo && prompt.size() + 1 == ids.size() && !std::exchange(c.echoed, true)) {
    add(nullptr, ids[0]);
    for (const Sampler::Choice& choice : prompt) add(&choice, choice.token);
  }
  for (std::size_t t = from; t < c.tokens.size(); ++t) add(&c.tokens[t], c.tokens[t].token);
  c.told = c.tokens.size();
  return {{"tokens", tokens}, {"token_logprobs", logprobs}, {"top_logprobs", top}, {"text_offset", offsets}};
}

Json CompletionAnswer::choice(std::size_t i, const std::string& text, bool last) {
  Choice& c = choices_[i];
  return {{"index", i},
          {"text", text},
          {"logprobs", logprobs(i, c.told)},
          {"finish_reason", last ? Json(c.finish) : Json()}};
}

void CompletionAnswer::tell(std::size_t i, const std::string& piece, bool last) {
  Choice& c = choices_[i];
  c.held += piece;
  if ((c.waiting = lacks_prompt(i))) return;
  Json chunk = envelope("text_completion");
  chunk["choices"] = Json::array({choice(i, std::exchange(c.held, ""), last)});
  if (asked_.include_usage) chunk["usage"] = nullptr;
  event(chunk);
  const auto n = static_cast<std::size_t>(asked_.n);
  for (std::size_t other = i + 1; i % n == 0 && other < i + n; ++other)
    if (choices_[other].waiting) tell(other, "", choices_[other].done);
}

Json CompletionAnswer::whole() {
  Json all = envelope("text_completion"), list = Json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) list.push_back(choice(i, choices_[i].whole, true));
  finish_whole(all, std::move(list));
  return all;
}

// --- chat

Json ChatAnswer::logprobs(Choice& c) {
  if (!asked_.logprobs) return nullptr;
  auto entry = [&](Token token, float logprob) {
    const std::string text = token_text(token);
    Json bytes = Json::array();
    for (unsigned char byte : text) bytes.push_back(byte);
    return Json{{"token", text}, {"logprob", clamped(logprob)}, {"bytes", bytes}};
  };
  Json content = Json::array();
  for (; c.told < c.tokens.size(); ++c.told) {
    const Sampler::Choice& choice = c.tokens[c.told];
    Json one = entry(choice.token, choice.logprob), top = Json::array();
    for (const TokenLogprob& t : choice.top) top.push_back(entry(t.token, t.logprob));
    one["top_logprobs"] = top;
    content.push_back(one);
  }
  return {{"content", content}};
}

Json ChatAnswer::call_json(const ToolCall& call) const {
  std::string id = fresh_id("call_");
  if (asked_.reply.tools == ToolStyle::mistral) id = id.substr(5, 9);  // Mistral's template accepts ids of 9 characters
  return {{"id", id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

void ChatAnswer::tell(std::size_t i, const std::string&, bool last) {
  Choice& c = choices_[i];
  auto chunk = [&](Json delta, Json logprobs, Json finish) {
    Json all = envelope("chat.completion.chunk");
    all["choices"] = Json::array({Json{{"index", i},
                                       {"delta", std::move(delta)},
                                       {"logprobs", std::move(logprobs)},
                                       {"finish_reason", std::move(finish)}}});
    if (asked_.include_usage) all["usage"] = nullptr;
    event(all);
  };
  if (!std::exchange(c.begun, true)) chunk({{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  const ReplyParser::Piece& said = c.said;
  std::size_t number = c.calls.size() - said.calls.size();
  if (!said.reasoning.empty()) chunk({{"reasoning_content", said.reasoning}}, nullptr, nullptr);
  if (!said.content.empty()) chunk({{"content", said.content}}, logprobs(c), nullptr);
  for (const ToolCall& call : said.calls) {  // two events: name, arguments
    Json head = call_json(call);
    head["index"] = number;
    head["function"]["arguments"] = "";
    chunk({{"tool_calls", Json::array({head})}}, nullptr, nullptr);
    chunk({{"tool_calls", Json::array({Json{{"index", number++}, {"function", {{"arguments", call.arguments}}}}})}},
          nullptr, nullptr);
  }
  if (last)
    chunk(Json::object(), asked_.logprobs && c.told < c.tokens.size() ? logprobs(c) : Json(),
          c.finish == "stop" && !c.calls.empty() ? "tool_calls" : c.finish);
}

Json ChatAnswer::whole() {
  Json all = envelope("chat.completion"), list = Json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& c = choices_[i];
    Json message = {{"role", "assistant"},
                    {"content", c.content.empty() && !c.calls.empty() ? Json() : Json(c.content)}};
    if (!c.reasoning.empty()) message["reasoning_content"] = c.reasoning;
    for (const ToolCall& call : c.calls) message["tool_calls"].push_back(call_json(call));
    list.push_back({{"index", i},
                    {"message", message},
                    {"logprobs", logprobs(c)},
                    {"finish_reason", c.finish == "stop" && !c.calls.empty() ? "tool_calls" : c.finish}});
  }
  finish_whole(all, std::move(list));
  return all;
}

}  // namespace dml
