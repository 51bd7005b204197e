#include "recipe/codecs.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/closest.h"
#include "core/text.h"

namespace dml::recipe {
namespace {

/// A number without digit separators ("1_000") and leading plus; "" if an underscore is not between digits.
std::string digits(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_') {
      auto digit = [&](std::size_t k) { return k < text.size() && text[k] >= '0' && text[k] <= '9'; };
      if (i == 0 || !digit(i - 1) || !digit(i + 1)) return "";
    } else if (text[i] != '+' || i > 0) {
      out += text[i];
    }
  }
  return out;
}

template <class T>
bool parse_whole(const std::string& text, T& value) {
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && code == std::errc() && end == text.data() + text.size();
}

/// "010" is eight in YAML 1.1 and ten in YAML 1.2.
bool leading_zero(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text.find_first_not_of("0123456789_") == text.npos;
}

bool in_range(double value, const Rules& rules) {
  return std::isfinite(value) && value <= rules.max && (rules.above ? value > rules.min : value >= rules.min);
}

std::string what(const Node& node) {
  switch (node.kind) {
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a table";
    case Node::Kind::null:
      return "empty";
    case Node::Kind::scalar:
      break;
  }
  if (leading_zero(node.text))
    return fmt::format("'{}' (a leading zero means an octal number in YAML 1.1)", shown(node.text));
  return fmt::format("'{}'", shown(node.text));
}

}  // namespace

bool parse_bool(const Node& node, bool& value) {
  auto text = canonical_bool(node.text);
  value = text == "true";
  return node.is_scalar() && (value || text == "false");
}

bool parse_integer(const Node& node, std::int64_t& value) {
  if (!node.is_scalar() || leading_zero(node.text)) return false;
  if (parse_whole(digits(node.text), value)) return true;
  double number = 0;  // "1e3", "4.0"
  if (!parse_number(node, number) || number != std::floor(number) || std::abs(number) > 9e15) return false;
  value = static_cast<std::int64_t>(number);
  return true;
}

bool parse_number(const Node& node, double& value) {
  return node.is_scalar() && !leading_zero(node.text) && parse_whole(digits(node.text), value) && std::isfinite(value);
}

Json to_json(const Node& node) {
  Json out;
  if (node.kind == Node::Kind::list) {
    out = Json::array();
    for (const auto& item : node.items) out.push_back(to_json(item));
  } else if (node.kind == Node::Kind::map) {
    out = Json::object();
    for (std::size_t i = 0; i < node.keys.size(); ++i) out[node.keys[i].text] = to_json(node.items[i]);
  } else if (node.is_scalar()) {
    bool truth = false;
    double number = 0;
    std::int64_t integer = 0;
    if (node.plain && parse_bool(node, truth)) out = truth;
    else if (node.plain && !leading_zero(node.text) && parse_whole(digits(node.text), integer)) out = integer;
    else if (node.plain && parse_number(node, number)) out = number;
    else out = node.text;
  }
  return out;
}

void wrong(const Node& node, const Field& field, const std::string& path, Reading& reading) {
  std::string example =
      field.rules.example.empty() ? "" : fmt::format("; for example {}: {}", field.key, field.rules.example);
  reading.report.error(node.place, fmt::format("'{}' must be {}, is {}{}", path, field.expects(), what(node), example));
}

void read_integer(const Node& node, std::int64_t& to, const Field& field, const std::string& path, Reading& reading) {
  const auto& words = field.rules.words;
  if (auto word = std::ranges::find(words, node.text); node.is_scalar() && word != words.end()) {
    to = word - words.begin();
    return;
  }
  std::int64_t value = 0;
  if (!parse_integer(node, value) || !in_range(static_cast<double>(value), field.rules))
    return wrong(node, field, path, reading);
  to = value;
}

void read_number(const Node& node, double& to, const Field& field, const std::string& path, Reading& reading) {
  double value = 0;
  if (!parse_number(node, value) || !in_range(value, field.rules)) return wrong(node, field, path, reading);
  to = value;
}

void read_text(const Node& node, std::string& to, const Field& field, const std::string& path, Reading& reading) {
  if (!node.is_scalar()) return wrong(node, field, path, reading);
  to = node.text;
  if (to.find('\0') != to.npos)
    return reading.report.error(node.place, fmt::format("'{}' must not contain a NUL character", path));
  if (field.rules.path) {
    if (to.find('\n') != to.npos)
      return reading.report.error(node.place, fmt::format("'{}' is a path and must be one line", path));
    const char* home = std::getenv("HOME");
    if (home && (to == "~" || to.starts_with("~/"))) to.replace(0, 1, home);
  }
  if (field.rules.choices.empty()) return;
  std::vector<std::string> spellings;
  for (const auto& choice : field.rules.choices) {
    if (choice.spelling == to) {
      if (!choice.notice.empty()) reading.report.notice(fmt::format("{}: {}: {}", path, to, choice.notice));
      to = choice.value;
      return;
    }
    spellings.push_back(choice.spelling);
  }
  if (const std::string nearest = field.rules.nearest ? field.rules.nearest(to) : ""; !nearest.empty())
    return reading.report.error(node.place,
                                fmt::format("'{}': dml does not have {}; the nearest is {}", path, to, nearest));
  wrong_choice(node, spellings, path, reading);
}

void read_json(const Node& node, Json& to, const Field& field, const std::string& path, Reading& reading) {
  if (node.kind == Node::Kind::map) {
    to = to_json(node);
    return;
  }
  if (!node.is_scalar() || !field.rules.pairs) return wrong(node, field, path, reading);
  to = Json::object();
  for (std::size_t i = 0; i < node.text.size();) {
    auto end = std::min(node.text.find(',', i), node.text.size());
    auto pair = node.text.substr(i, end - i);
    auto equals = pair.find('=');
    const std::string key(trim(std::string_view(pair).substr(0, equals)));
    if (equals == pair.npos || key.empty()) return wrong(node, field, path, reading);
    Node value;
    value.kind = Node::Kind::scalar;
    value.text = trim(std::string_view(pair).substr(equals + 1));
    to[key] = to_json(value);
    i = end + 1;
  }
}

bool stands_for_none(const Node& node, const Field& field) {
  const Rules& r = field.rules;
  double value = 0;
  return r.off && parse_number(node, value) && value >= *r.off && (value < r.min || (r.above && value == r.min));
}

std::string expects_number(const char* noun, const Field& field) {
  const Rules& r = field.rules;
  std::string out = noun;
  if (std::isfinite(r.min)) out += fmt::format(" {} {}", r.above ? "above" : "of at least", r.min);
  if (std::isfinite(r.max)) out += fmt::format("{} at most {}", std::isfinite(r.min) ? " and" : " of", r.max);
  for (const auto& word : r.words) out += fmt::format(", or '{}'", word);
  if (r.off && *r.off < r.min - 1) out += fmt::format(", or {} or {} (off)", *r.off, r.min - 1);
  else if (r.off) out += fmt::format(", or {} (off)", *r.off);
  return out;
}

std::string expects_text(const Field& field) {
  if (field.rules.choices.empty()) return field.rules.path ? "a path" : "text";
  std::vector<std::string> values;
  for (const auto& choice : field.rules.choices)
    if (std::ranges::find(values, choice.value) == values.end()) values.push_back(choice.value);
  return expects_one_of(values);
}

std::string expects_one_of(const std::vector<std::string>& spellings) {
  std::vector<std::string> shown_ones;
  for (const auto& s : spellings)
    if (!(s == "false" && std::ranges::find(spellings, "no") != spellings.end())) shown_ones.push_back(s);
  return fmt::format("one of {}", fmt::join(shown_ones, ", "));
}

void wrong_choice(const Node& node, const std::vector<std::string>& spellings, const std::string& path,
                  Reading& reading) {
  auto hint = node.is_scalar() ? closest(node.text, spellings) : "";
  reading.report.error(node.place, fmt::format("'{}' must be {}, is {}{}", path, expects_one_of(spellings), what(node),
                                               hint.empty() ? "" : fmt::format("; did you mean '{}'?", hint)));
}

Json number_schema(const char* type, const Field& field) {
  const Rules& r = field.rules;
  Json out = {{"type", type}};
  if (!r.words.empty()) out["type"] = {type, "string"};
  if (r.off) out["minimum"] = *r.off;
  else if (std::isfinite(r.min)) out[r.above ? "exclusiveMinimum" : "minimum"] = r.min;
  if (std::isfinite(r.max)) out["maximum"] = r.max;
  return out;
}

Json text_schema(const Field& field) {
  if (field.rules.choices.empty()) return {{"type", "string"}};
  Json spellings = Json::array();
  for (const auto& choice : field.rules.choices) spellings.push_back(choice.spelling);
  return {{"enum", spellings}};
}

}  // namespace dml::recipe
