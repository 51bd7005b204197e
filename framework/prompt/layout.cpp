#include "prompt/layout.h"

#include <algorithm>
#include <array>

#include "core/closest.h"
#include "core/error.h"
#include "core/shown.h"

namespace dml {
namespace {

[[noreturn]] void missing(const Json& record, const std::string& column) {
  if (made_of_prompt(record)) throw UserError("this format needs '{}' beside the prompt", column);
  std::vector<std::string> names;
  for (auto& [key, value] : record.items())
    if (names.size() < 12) names.push_back(key);
  std::string has = names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
  throw UserError("the row has no '{}'; it has {}{}", column, has, nearest_key(column, record, looks_like(record)));
}

const Json& column_value(const Json& record, const std::string& column) {
  auto it = record.find(column);
  if (it == record.end()) missing(record, column);
  return *it;
}

bool has_list(const Json& record, const char* key) {
  auto it = record.find(key);
  return it != record.end() && it->is_array();
}

// Writes YAML in block style with sorted keys, as the creative_acr format does.
void append_yaml(const Json& value, int indent, std::string& out) {
  std::vector<std::pair<std::string, const Json*>> members;
  for (auto& [key, member] : value.items()) members.emplace_back(key, &member);
  std::sort(members.begin(), members.end());
  for (auto& [key, member] : members) {
    out.append(static_cast<std::size_t>(indent), ' ').append(key).append(":");
    if (member->is_object()) {
      out += '\n';
      append_yaml(*member, indent + 2, out);
    } else {
      out.append(" ").append(text_or_json(*member)).append("\n");
    }
  }
}

}  // namespace

Layout::Layout(std::string_view text, std::string_view what) : text_(text) {
  std::string literal;
  auto flush = [&] {
    literals_ += literal.size();
    if (!literal.empty()) parts_.push_back({Form::literal, std::move(literal), {}});
    literal.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool doubled = i + 1 < text.size() && text[i + 1] == c;
    if ((c == '{' || c == '}') && doubled) {
      literal += c;
      ++i;
    } else if (c == '{') {
      auto end = text.find('}', i);
      if (end == std::string_view::npos) throw UserError("{}: '{{' without '}}' (write '{{{{' for a brace)", what);
      std::string_view inside = text.substr(i + 1, end - i - 1);
      Part part{Form::text, "", {}};
      if (inside.ends_with("[]")) part.form = Form::lines, inside.remove_suffix(2);
      if (inside.ends_with("%")) part.form = Form::yaml, inside.remove_suffix(1);
      while (true) {
        auto bar = inside.find('|');
        part.columns.emplace_back(inside.substr(0, bar));
        if (bar == std::string_view::npos) break;
        inside.remove_prefix(bar + 1);
      }
      if (part.columns.front().empty())
        throw UserError("{}: '{{}}' names no column (write '{{{{}}}}' for braces)", what);
      flush();
      parts_.push_back(std::move(part));
      i = end;
    } else if (c == '}') {
      throw UserError("{}: '}}' without '{{' (write '}}}}' for a brace)", what);
    } else {
      literal += c;
    }
  }
  flush();
}

void Layout::render(const Json& record, bool trained, Segment& out) const {
  constexpr std::size_t kUsual = 512;  // typical length, reserved so that the text need not grow
  if (literals_ > 0) out.text.reserve(out.text.size() + literals_ + kUsual);
  out.spans.reserve(out.spans.size() + parts_.size() + 1);  // one more for the segment's end
  for (auto& part : parts_) {
    if (part.form == Form::literal) {
      out.add(part.text, trained, true);
      continue;
    }
    auto column = std::find_if(part.columns.begin(), part.columns.end(), [&](auto& c) { return record.contains(c); });
    const std::string& name = column == part.columns.end() ? part.columns.front() : *column;
    if (part.form == Form::text) {
      if (const std::string& text = text_column(record, name); !text.empty()) out.add(text, trained, false);
      continue;
    }
    std::string text;
    if (part.form == Form::lines) {
      for (auto& item : list_column(record, name)) {
        if (!item.is_string()) throw UserError("'{}' must be a list of strings, has {}", name, shown(dump(item), 60));
        text += fmt::format("{}- \"{}\"", text.empty() ? "" : "\n", item.get_ref<const std::string&>());
      }
    } else {
      auto& value = column_value(record, name);
      if (!value.is_object()) throw UserError("'{}' must be an object, is {}", name, shown(dump(value), 60));
      append_yaml(Json{{name, value}}, 0, text);
    }
    if (!text.empty()) out.add(text, trained, false);
  }
}

std::vector<std::string> Layout::columns() const {
  std::vector<std::string> names;
  for (auto& part : parts_)
    if (part.form != Form::literal) names.push_back(part.columns.front());
  return names;
}

const std::string& text_column(const Json& record, const std::string& column) {
  const Json& value = column_value(record, column);
  if (!value.is_string()) throw UserError("'{}' must be a string, is {}", column, shown(dump(value), 60));
  return value.get_ref<const std::string&>();
}

std::string optional_text_column(const Json& record, const std::string& column) {
  auto it = record.find(column);
  if (column.empty() || it == record.end() || it->is_null()) return "";
  return text_column(record, column);
}

const Json& list_column(const Json& record, const std::string& column) {
  const Json& value = column_value(record, column);
  if (!value.is_array()) throw UserError("'{}' must be a list, is {}", column, shown(dump(value), 60));
  return value;
}

bool made_of_prompt(const Json& record) {
  return std::ranges::all_of(std::array{"prompt", "INSTRUCTION", "message_1", "conversations"},
                             [&](const char* column) { return record.contains(column); });
}

std::string looks_like(const Json& record) {
  auto has = [&](const char* key) { return record.contains(key); };
  if (has("input_ids")) return "; the row looks tokenized: leave type empty";
  if (has_list(record, "conversations")) {
    auto& turns = record["conversations"];
    bool role = !turns.empty() && turns[0].is_object() && turns[0].contains("role");
    return role ? "; it looks like a conversation: use `type: chat_template` with `field_messages: conversations`"
                : "; it looks like sharegpt: use `type: sharegpt`";
  }
  if (has_list(record, "messages")) return "; it looks like a conversation: use `type: chat_template`";
  if (has_list(record, "segments")) return "; it looks like segments: use `type: input_output`";
  if (has("instruction") && has("output")) return "; it looks like alpaca: use `type: alpaca`";
  if (has("chosen") && has("rejected")) return "; it looks like pairs of answers: use `rl: dpo`";
  if (has("prompt") && has("completion") && has("label")) return "; it looks like answers with labels: use `rl: kto`";
  if (has_list(record, "prompt") && has_list(record, "completion"))
    return "; 'prompt' and 'completion' are lists of messages: use `type: chat_template.prompt_completion`";
  if (has("prompt") && has("completion")) return "; it looks like prompt and completion: use `type: prompt_completion`";
  if (has("question") && has("answer")) return "; it looks like question and answer: use `type: alpaca_chat.load_qa`";
  if (has("text")) return "; it looks like plain text: use `type: completion`";
  return "";
}

std::string nearest_key(const std::string& wanted, const Json& object, const std::string& otherwise) {
  std::vector<std::string> names;
  for (auto& [key, value] : object.items()) names.push_back(key);
  const std::string near = closest(wanted, names);
  return near.empty() ? otherwise : fmt::format("; did you mean '{}'?", near);
}

}  // namespace dml
