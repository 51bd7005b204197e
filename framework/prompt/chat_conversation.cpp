#include "prompt/chat_conversation.h"

#include <algorithm>

#include "core/error.h"
#include "core/utf8.h"
#include "jinja/unicode.h"
#include "prompt/conversation_json.h"
#include "prompt/layout.h"
#include "prompt/loss_weight.h"

namespace dml {
namespace {

using jinja::Mark;
using jinja::Text;

constexpr std::string_view kBlanks = " \t\r\n\v\f";

/// A character range of a message's content, trained or masked independently of its turn.
struct Detail {
  std::int64_t begin = 0, end = 0;  // characters, end exclusive
  bool trained = false;
};

class Reader {
 public:
  Reader(const Json& record, const ConversationOptions& options)
      : record_(record), o_(options), e_(options.entry), field_(e_.field_messages) {}

  Conversation run() {
    std::vector<Json> messages = mapped_messages();
    decide(messages);
    std::vector<jinja::Value> values;
    for (std::size_t i = 0; i < messages.size(); ++i) values.push_back(message(messages[i], static_cast<int>(i)));
    out_.messages = jinja::Value::list(std::move(values));
    if (auto it = record_.find(e_.field_tools); it != record_.end() && !is_blank(*it)) out_.tools = tools(*it);
    return std::move(out_);
  }

 private:
  std::string at(std::size_t i, std::string_view key) const { return fmt::format("{}[{}].{}", field_, i, key); }

  Mark mark(int turn, bool spoken, bool trained) {
    if (!out_.sources.empty()) {
      const Source& last = out_.sources.back();
      if (last.turn == turn && last.spoken == spoken && last.trained == trained)
        return static_cast<Mark>(out_.sources.size());
    }
    out_.sources.push_back({turn, spoken, trained});
    return static_cast<Mark>(out_.sources.size());
  }

  // --- roles, columns, mappings

  std::vector<Json> mapped_messages() {
    const auto column = record_.find(field_);
    if (column != record_.end() && column->is_null()) throw UserError("'{}' is null", field_);
    if (!record_.is_object() || column == record_.end())
      throw UserError("the row has no '{}'; it has {}; set field_messages{}", field_, keys_of(record_),
                      record_.is_object() ? looks_like(record_) : "");
    const Json list = list_or_text(*column, field_);
    std::vector<Json> messages;
    if (auto system = record_.find(e_.field_system.value_or("system"));
        system != record_.end() && system->is_string() && !system->get_ref<const std::string&>().empty())
      messages.push_back(Json{{"role", "system"}, {"content", *system}});
    for (std::size_t i = 0; i < list.size(); ++i) {
      Json m = mapped(list[i], i);
      if (i == 0 && !messages.empty() && m["role"] == "system")
        messages.clear();  // the conversation has its own system message
      messages.push_back(std::move(m));
    }
    if (e_.drop_system_message && !messages.empty() && messages[0]["role"] == "system")
      messages.erase(messages.begin());
    if (!o_.default_system.empty() && !messages.empty() && messages[0]["role"] != "system")
      messages.insert(messages.begin(), Json{{"role", "system"}, {"content", o_.default_system}});
    if (messages.empty()) throw UserError("{}: the conversation is empty", field_);
    return messages;
  }

  Json mapped(const Json& raw, std::size_t i) const {
    if (!raw.is_object()) throw UserError("{}[{}]: must be an object, is {}", field_, i, raw.type_name());
    const Json given = without_nulls(raw);
    Json m = given;
    auto mappings = e_.message_property_mappings;
    mappings.try_emplace("role", "role");
    mappings.try_emplace("content", "content");
    if (e_.field_thinking) mappings[e_.template_thinking_key] = *e_.field_thinking;
    for (auto& [target, source] : mappings)
      if (source != target) m.erase(source);
    for (auto& [target, source] : mappings) {
      if (auto it = given.find(source); it != given.end()) m[target] = *it;
      else if (source != target) m.erase(target);
    }
    if (!m.contains("role"))
      throw UserError("{}[{}]: the message has no '{}'; it has {}; {}", field_, i, mappings["role"], keys_of(given),
                      given.contains("from") ? "use type: sharegpt, or message_property_mappings"
                                             : "set message_property_mappings");
    if (!m["role"].is_string())
      throw UserError("{}: must be a string, is {}", at(i, mappings["role"]), m["role"].type_name());
    if (!m.contains("content") && !raw.contains(mappings["content"]) && !m.contains("tool_calls") &&
        !m.contains(e_.template_thinking_key)) {
      throw UserError("{}[{}]: the message has no '{}'; it has {}{}", field_, i, mappings["content"], keys_of(given),
                      nearest_key(mappings["content"], given, "; set message_property_mappings"));
    }
    m["role"] = role_name(m["role"].get<std::string>());
    return m;
  }

  std::string role_name(const std::string& spelling) const {
    const auto it = o_.role_names.find(spelling);
    return it == o_.role_names.end() ? spelling : it->second;
  }

  /// Decides which turns are trained: by the message's own flag, then its details, then its role; of these, the last N.
  void decide(const std::vector<Json>& messages) {
    std::int64_t left = e_.train_on_turns > 0 ? e_.train_on_turns : static_cast<std::int64_t>(messages.size());
    out_.turns.resize(messages.size());
    details_.resize(messages.size());
    by_turn_.resize(messages.size());
    for (std::size_t i = messages.size(); i-- > 0;) {
      const Json& m = messages[i];
      Turn& t = out_.turns[i];
      t.role = m["role"].get<std::string>();
      const Json* own = member(m, e_.message_field_training);
      const Json* details = member(m, e_.message_field_training_detail);
      details_[i] = details;
      const Json* weight = member(m, e_.message_field_weight);
      out_.fields |= {own != nullptr, details != nullptr, weight != nullptr, false};
      if (own) t.trained = flag(*own, at(i, *e_.message_field_training));
      else if (details) t.trained = details->is_array() && !details->empty();
      else
        t.trained = o_.train_on_inputs || std::any_of(e_.roles_to_train.begin(), e_.roles_to_train.end(),
                                                      [&](auto& r) { return role_name(r) == t.role; });
      if (weight) t.weight = static_cast<float>(loss_weight(*weight, at(i, *e_.message_field_weight)));
      t.trained = t.trained && t.weight > 0;
      by_turn_[i] = t.trained;
      t.trained = t.trained || (t.weight > 0 && has_trained_part(m, i));
      if (t.trained && left-- <= 0) {
        t.trained = false;
        by_turn_[i] = 0;
      }
    }
  }

  /// The flag {"train": true} or {"weight": 1} of a content part.
  static const Json* part_flag(const Json& part) {
    if (!part.is_object()) return nullptr;
    for (const char* spelling : {"train", "weight"})
      if (auto it = part.find(spelling); it != part.end()) return &*it;
    return nullptr;
  }
  bool has_trained_part(const Json& m, std::size_t i) const {
    for (const std::string& key : {std::string("content"), e_.template_thinking_key})
      if (auto it = m.find(key); it != m.end() && it->is_array())
        for (auto& part : *it)
          if (const Json* f = part_flag(part); f && flag(*f, at(i, key))) return true;
    return false;
  }

  static const Json* member(const Json& m, const std::optional<std::string>& key) {
    if (!key) return nullptr;
    const auto it = m.find(*key);
    return it == m.end() ? nullptr : &*it;
  }

  // --- one message

  jinja::Value message(const Json& m, int turn) {
    const auto i = static_cast<std::size_t>(turn);
    Turn& t = out_.turns[i];
    Text content, thinking;
    const auto calls = m.find("tool_calls");
    t.calls_tools = calls != m.end() && calls->is_array() && !calls->empty();
    const bool has_content = m.contains("content");
    if (has_content) content = text_of(m["content"], turn, "content", true);
    const auto own_thinking = m.find(e_.template_thinking_key);
    bool has_thinking = own_thinking != m.end();
    if (has_thinking) thinking = text_of(*own_thinking, turn, e_.template_thinking_key, false);
    if (!has_thinking && e_.split_thinking && t.role == "assistant") has_thinking = split_thinking(content, thinking);
    t.has_text = content.str().find_first_not_of(kBlanks) != std::string::npos;

    jinja::Dict d;
    // A role of letters cannot spell a special token, and templates insert it between two halves of one.
    const bool plain = std::all_of(t.role.begin(), t.role.end(),
                                   [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == ' '; });
    d.set("role", Text(t.role, plain ? 0 : mark(turn, false, false)));
    // A turn with only tool calls has content None, as its template expects; any other has a string.
    if (has_content || !t.calls_tools) d.set("content", content);
    else d.set("content", nullptr);
    if (has_thinking) d.set(Text(e_.template_thinking_key), thinking);
    for (auto& [key, value] : m.items()) {
      if (key == "role" || key == "content" || key == e_.template_thinking_key) continue;
      if (key == "tool_calls" && t.calls_tools) d.set("tool_calls", tool_calls(value, turn));
      else if (key != e_.message_field_training && key != e_.message_field_training_detail &&
               key != e_.message_field_weight)
        d.set(Text(key), jinja::from_json(value, mark(turn, false, false)));
    }
    return d;
  }

  /// Reads a string, or a list of {type: text, text, train}: one text with trained and masked ranges.
  Text text_of(const Json& value, int turn, std::string_view key, bool with_details) {
    const auto i = static_cast<std::size_t>(turn);
    const bool trained = by_turn_[i];
    if (value.is_string()) {
      const std::string& s = value.get_ref<const std::string&>();
      return with_details ? detailed(s, turn) : Text(s, mark(turn, true, trained));
    }
    if (!value.is_array())
      throw UserError("{}: must be a string or a list of parts, is {}", at(i, key), value.type_name());
    Text out;
    for (std::size_t k = 0; k < value.size(); ++k) {
      const Json& part = value[k];
      const std::string name = fmt::format("{}[{}]", at(i, key), k);
      if (part.is_string()) {
        out.append(part.get_ref<const std::string&>(), mark(turn, true, trained));
        continue;
      }
      const Json* text = nullptr;
      if (part.is_object())
        for (const char* spelling : {"text", "content", "value"})
          if (auto it = part.find(spelling); !text && it != part.end() && it->is_string()) text = &*it;
      if (!text) throw UserError("{}: must be a text part, as {{\"type\": \"text\", \"text\": …}}", name);
      const Json* own = part_flag(part);
      const bool part_trained = own ? out_.turns[i].trained && flag(*own, name) : trained;
      out.append(text->get_ref<const std::string&>(), mark(turn, true, part_trained));
    }
    return out;
  }

  /// Applies message_field_training_detail: [{begin_offset, end_offset (inclusive), train}]; characters outside all
  /// ranges are not trained.
  Text detailed(const std::string& s, int turn) {
    const auto i = static_cast<std::size_t>(turn);
    const bool trained = out_.turns[i].trained;
    const Json* details = details_[i];
    if (!trained || !details || !details->is_array()) return Text(s, mark(turn, true, trained));
    const auto n = static_cast<std::int64_t>(count_characters(s));
    std::vector<Detail> ranges;
    for (std::size_t k = 0; k < details->size(); ++k) {
      const std::string name = fmt::format("{}[{}]", at(i, *e_.message_field_training_detail), k);
      const Json& d = (*details)[k];
      if (!d.is_object()) throw UserError("{}: must be an object, is {}", name, d.type_name());
      Detail range{json_integer(d, "begin_offset", -1, name), json_integer(d, "end_offset", -1, name) + 1,
                   d.contains("train") && flag(d["train"], name + ".train")};
      if (range.begin < 0 || range.end < range.begin || range.end > n)
        throw UserError("{}: begin_offset {} and end_offset {} must lie in the content's {} characters", name,
                        range.begin, range.end - 1, n);
      ranges.push_back(range);
    }
    std::stable_sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
    Text out;
    std::int64_t character = 0;
    std::size_t byte = 0;
    auto put = [&](std::int64_t end, bool part_trained) {
      if (end <= character) return;
      const std::size_t length =
          jinja::character_offset(std::string_view(s).substr(byte), static_cast<std::size_t>(end - character));
      out.append(std::string_view(s).substr(byte, length), mark(turn, true, part_trained));
      byte += length;
      character = end;
    };
    for (const Detail& d : ranges) {
      if (d.begin < character)
        throw UserError("{}: the ranges overlap at character {}", at(i, *e_.message_field_training_detail), d.begin);
      put(d.begin, false);
      put(d.end, d.trained);
    }
    put(n, false);
    return out;
  }

  /// Splits reasoning at the start of the content, in one of the known pairs of tags, into a field of its own.
  static bool split_thinking(Text& content, Text& thinking) {
    struct Tags {
      std::string_view open, close, answer_open, answer_close;
    };
    static constexpr Tags kTags[] = {
        {"<think>", "</think>", "", ""},
        {"<reasoning>", "</reasoning>", "", ""},
        {"<|begin_of_thought|>", "<|end_of_thought|>", "<|begin_of_solution|>", "<|end_of_solution|>"}};
    for (const Tags& tags : kTags) {
      const std::string& s = content.str();
      const std::size_t open = s.find_first_not_of(kBlanks), close = s.find(tags.close);
      if (open == std::string::npos || !s.substr(open).starts_with(tags.open) || close == std::string::npos) continue;
      thinking = jinja::strip(content.slice(open + tags.open.size(), close), nullptr, true, true);
      Text rest = jinja::strip(content.slice(close + tags.close.size()), nullptr, true, false);
      if (!tags.answer_open.empty() && rest.view().starts_with(tags.answer_open)) {
        rest = rest.slice(tags.answer_open.size());
        if (const auto end = rest.str().rfind(tags.answer_close); end != std::string::npos) rest = rest.slice(0, end);
        rest = jinja::strip(rest, nullptr, true, true);
      }
      content = std::move(rest);
      return true;
    }
    return false;
  }

  // --- tools

  jinja::Value tool_calls(Json calls, int turn) {
    const auto i = static_cast<std::size_t>(turn);
    decode_functions(calls, "arguments", at(i, "tool_calls"));
    return jinja::from_json(calls, mark(turn, true, out_.turns[i].trained));
  }

  jinja::Value tools(const Json& column) {
    Json list = without_nulls(list_or_text(column, e_.field_tools));
    decode_functions(list, "parameters", e_.field_tools);
    if (list.empty()) return nullptr;
    return jinja::from_json(list, mark(-1, false, false));
  }

  const Json& record_;
  const ConversationOptions& o_;
  const DatasetEntry& e_;
  const std::string& field_;
  Conversation out_;
  std::vector<const Json*> details_;  // message_field_training_detail of each message
  std::vector<char> by_turn_;         // whether the turn is trained as a whole, not because of a part
};

}  // namespace

ConversationOptions conversation_options(const DatasetEntry& entry, bool train_on_inputs) {
  ConversationOptions o{entry, train_on_inputs, {}, {}};
  if (entry.roles) {
    for (auto& [target, spellings] : *entry.roles)
      for (auto& s : spellings) o.role_names[s] = target;
  } else {
    o.role_names = {{"human", "user"}, {"gpt", "assistant"}};
  }
  return o;
}

Conversation read_conversation(const Json& record, const ConversationOptions& options) {
  try {
    return Reader(record, options).run();
  } catch (const jinja::Failure& f) {
    throw UserError("{}: {}", options.entry.field_messages, f.text);
  }
}

}  // namespace dml
