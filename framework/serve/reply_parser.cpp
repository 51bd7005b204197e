#include "serve/reply_parser.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace dml {
namespace {

constexpr std::string_view kThink = "<think>", kThought = "</think>", kCall = "<tool_call>", kCalled = "</tool_call>",
                           kCalls = "[TOOL_CALLS]", kArguments = "[ARGS]", kPython = "<|python_tag|>";
constexpr std::string_view kBlanks = " \t\r\n";
constexpr JsonLimits kOneCall{.bytes = std::size_t{1} << 20};

std::optional<Json> json_of(std::string_view text) {
  try {
    return parse_written_json(text, "a call", kOneCall);
  } catch (const UserError&) {
    return {};
  }
}

std::optional<ToolCall> call_of(const Json& json) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return {};
  for (const char* name : {"arguments", "parameters"})
    if (auto found = json.find(name); found != json.end())
      return ToolCall{json["name"].get<std::string>(), text_or_json(*found)};
  return {};
}

// The end of the JSON value at the beginning of a text; npos where it is incomplete.
std::size_t json_end(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// The number of bytes at the end of a text that may be the beginning of a mark.
std::size_t begun_mark(std::string_view text, std::string_view mark) {
  if (mark.empty()) return 0;
  for (std::size_t n = std::min(mark.size() - 1, text.size()); n > 0; --n)
    if (text.ends_with(mark.substr(0, n))) return n;
  return 0;
}

// The place of the mark that ends a call in the text behind the call's opening mark; npos if it is not there. The mark
// may also stand in a string of the call's JSON.
std::size_t end_of_call(std::string_view text) {
  std::size_t end = text.find(kCalled);
  if (end == text.npos || !trim(text, kBlanks).starts_with('{')) return end;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') ++i;
    else if (text[i] == '"') quoted = !quoted;
    else if (!quoted && text.substr(i).starts_with(kCalled)) return i;
  }
  return text.npos;
}

// Whether a text begins as {"name": …} does, or is too short to tell.
bool begins_call(std::string_view text) {
  constexpr std::string_view kOpen = "{\"name\"";
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size() && n < kOpen.size(); ++i) {
    if (kBlanks.find(text[i]) != kBlanks.npos) continue;
    if (text[i] != kOpen[n++]) return false;
  }
  return true;
}

}  // namespace

ToolStyle tool_style(const std::string& source) {
  auto has = [&](std::string_view text) { return source.find(text) != source.npos; };
  if (!has("tools")) return ToolStyle::none;
  for (const char* other : {"<function=", "<arg_key>",  // arguments as XML
                            "<|tool_call>",             // Gemma 4
                            "\"tool_name\""})           // Command R and A
    if (has(other)) return ToolStyle::none;
  if (has(kCalls)) return ToolStyle::mistral;
  if (has(kCall)) return ToolStyle::hermes;
  return has("python_tag") || has("ipython") || has("\"parameters\"") ? ToolStyle::llama : ToolStyle::none;
}

ReplyParser::ReplyParser(const Format& format) : format_(format) {
  state_ = format.inside_reasoning                                ? State::reasoning
           : format.inside_call                                   ? State::call
           : format.reasoning || format.tools == ToolStyle::llama ? State::start
                                                                  : State::content;
}

// The number of pending bytes that can be given out: neither a prefix of a mark nor blanks in front of one.
std::size_t ReplyParser::safe(std::string_view mark) const {
  auto without_blanks = [&](std::size_t size) {
    return std::string_view(pending_).substr(0, size).find_last_not_of(kBlanks) + 1;
  };
  return without_blanks(pending_.size() - begun_mark(pending_, mark));
}

ReplyParser::Piece ReplyParser::push(std::string_view text) {
  pending_ += text;
  Piece out;
  while (step(out)) {
  }
  return out;
}

bool ReplyParser::enter(State next, std::size_t skip) {
  pending_.erase(0, skip);
  state_ = next;
  return true;
}

void ReplyParser::give(std::string& to, std::size_t size) {
  std::string_view text = std::string_view(pending_).substr(0, size);
  if (gap_) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (!text.empty()) gap_ = false;
  }
  to += text;
  pending_.erase(0, size);
}

bool ReplyParser::give_until(std::string& to, std::string_view mark, State next) {
  const auto at = pending_.find(mark);
  if (at == pending_.npos) {
    give(to, safe(mark));
    return false;
  }
  std::string before;
  give(before, at);
  to += before.substr(0, before.find_last_not_of(kBlanks) + 1);
  return enter(next, mark.size());
}

// Parses pending text. True when the state changed, so that it must be called again.
bool ReplyParser::step(Piece& out) {
  switch (state_) {
    case State::start:
      return step_start();
    case State::reasoning:
      if (!give_until(out.reasoning, kThought, format_.tools == ToolStyle::llama ? State::start : State::content))
        return false;
      return gap_ = true;
    case State::content: {
      const std::string_view front = trim(pending_, kBlanks), mark = call_mark();
      if (format_.either && !mark.starts_with(front) && !front.starts_with(mark)) format_.tools = ToolStyle::none;
      const bool marked = format_.tools == ToolStyle::hermes || format_.tools == ToolStyle::mistral;
      if (marked) return give_until(out.content, mark, State::call);
      give(out.content, pending_.size());
      return false;
    }
    case State::call: {
      if (format_.tools != ToolStyle::hermes) return false;
      const auto end = end_of_call(pending_);
      if (end == pending_.npos) return false;
      if (auto calls = calls_in(std::string_view(pending_).substr(0, end)))
        out.calls.insert(out.calls.end(), calls->begin(), calls->end());
      else out.content += std::string(kCall) + pending_.substr(0, end) + std::string(kCalled);
      gap_ = true;
      format_.inside_call = false;
      return enter(State::content, end + kCalled.size());
    }
    case State::whole:
      return false;
  }
  return false;
}

bool ReplyParser::step_start() {
  const std::string_view front = trim(pending_, kBlanks);
  const std::size_t blanks = std::min(pending_.find_first_not_of(kBlanks), pending_.size());
  const bool llama = format_.tools == ToolStyle::llama;
  if (format_.reasoning && front.starts_with(kThink)) {
    gap_ = true;
    return enter(State::reasoning, blanks + kThink.size());
  }
  if (llama && (front.starts_with('{') || front.starts_with(kPython))) {
    format_.inside_call = front.starts_with(kPython);
    return enter(State::whole, format_.inside_call ? blanks + kPython.size() : 0);
  }
  if (front.empty() || (format_.reasoning && kThink.starts_with(front)) || (llama && kPython.starts_with(front)))
    return false;
  return enter(State::content, 0);
}

std::string_view ReplyParser::call_mark() const {
  return format_.tools == ToolStyle::hermes    ? kCall
         : format_.tools == ToolStyle::mistral ? kCalls
         : format_.tools == ToolStyle::llama   ? kPython
                                               : std::string_view();
}

std::optional<std::vector<ToolCall>> ReplyParser::calls_in(std::string_view text, bool cut) const {
  std::vector<ToolCall> out;
  const auto incomplete = [&] { return cut ? std::optional(out) : std::nullopt; };
  text = trim(text, kBlanks);
  if (format_.tools == ToolStyle::mistral && !text.starts_with('[')) {  // name[ARGS]{…}, perhaps several
    while (!text.empty()) {
      if (text.starts_with(kCalls)) text.remove_prefix(kCalls.size());
      const auto mark = text.find(kArguments);
      if (mark == text.npos) return incomplete();
      const std::string_view rest = text.substr(mark + kArguments.size());
      const auto end = json_end(rest);
      if (end == rest.npos || !json_of(rest.substr(0, end))) return incomplete();
      out.push_back(
          {std::string(trim(text.substr(0, mark), kBlanks)), std::string(trim(rest.substr(0, end), kBlanks))});
      text = trim(rest.substr(end), kBlanks);
    }
    return out.empty() ? incomplete() : out;
  }
  if (cut && text.starts_with('[') && json_end(text) == text.npos) text.remove_prefix(1);  // a list that has no end
  while (!text.empty()) {
    const auto end = json_end(text);
    if (end == text.npos) return incomplete();
    const auto json = json_of(text.substr(0, end));
    if (!json) return incomplete();
    for (const Json& one : json->is_array() ? *json : Json::array({*json})) {
      auto call = call_of(one);
      if (!call) return incomplete();
      out.push_back(std::move(*call));
    }
    text = trim(text.substr(end), kBlanks);
    if (text.starts_with(';') || (cut && text.starts_with(','))) text = trim(text.substr(1), kBlanks);
  }
  return out.empty() ? incomplete() : out;
}

// Reads the rest of a reply that ends inside a tool call, of which the closing tag, or a part of it, may be missing.
void ReplyParser::finish_call(Piece& out, bool cut) {
  std::string_view text = pending_;
  if (format_.tools == ToolStyle::hermes) text.remove_suffix(begun_mark(text, kCalled));
  // A Llama model may answer in JSON that is not a tool call.
  cut = cut && (state_ == State::call || format_.inside_call || begins_call(text));
  if (auto calls = calls_in(text, cut)) {
    out.calls.insert(out.calls.end(), calls->begin(), calls->end());
    return;
  }
  if (state_ == State::call && !format_.inside_call) out.content += call_mark();
  out.content += pending_;
}

ReplyParser::Piece ReplyParser::finish(bool cut) {
  Piece out = push("");
  if (state_ == State::reasoning) {
    out.reasoning += pending_;
  } else if (state_ == State::call || state_ == State::whole) {
    finish_call(out, cut);
  } else {
    // One byte, such as <, is more likely text than the beginning of a mark.
    if (const std::size_t begun = begun_mark(pending_, call_mark()); cut && begun > 1) {
      pending_.resize(pending_.size() - begun);
      pending_.resize(pending_.find_last_not_of(kBlanks) + 1);
    }
    if (!gap_ || pending_.find_first_not_of(kBlanks) != pending_.npos) out.content += pending_;
  }
  pending_.clear();
  return out;
}

}  // namespace dml
