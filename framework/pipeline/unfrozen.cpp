#include "pipeline/unfrozen.h"

#include <algorithm>
#include <charconv>
#include <regex>

#include "core/error.h"

namespace dml {
namespace {

struct Rule {
  std::string text;
  std::regex pattern;
  bool ranged = false;
  std::int64_t first = 0, last = -1;  // −1: to the end
};

// "12" → 12, "" → `otherwise`.
std::int64_t row_number(std::string_view digits, std::int64_t otherwise, const std::string& text) {
  if (digits.empty()) return otherwise;
  std::int64_t n = -1;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size() || n < 0)
    throw UserError("unfrozen_parameters: '{}': '{}' is not the number of a row", text, digits);
  return n;
}

Rule parse(const std::string& text) {
  Rule rule;
  rule.text = text;
  std::string name = text;
  // A character class ends in a bracket, too; rows have a colon between numbers.
  auto open = text.rfind('[');
  if (open != std::string::npos && text.back() == ']' &&
      text.find_first_not_of("0123456789:", open + 1) == text.size() - 1 &&
      std::count(text.begin() + static_cast<std::ptrdiff_t>(open), text.end(), ':') == 1) {
    std::string_view inside = std::string_view(text).substr(open + 1, text.size() - open - 2);
    auto colon = inside.find(':');
    rule.ranged = true;
    rule.first = row_number(inside.substr(0, colon), 0, text);
    rule.last = row_number(inside.substr(colon + 1), -1, text);
    if (rule.last >= 0 && rule.first >= rule.last) throw UserError("unfrozen_parameters: '{}' names no row", text);
    name.resize(open);
  }
  try {
    rule.pattern.assign(name);
  } catch (const std::regex_error& e) {
    throw UserError("unfrozen_parameters: '{}' is not a regular expression: {}", text, e.what());
  }
  return rule;
}

RowRange rows_of(const Rule& rule, const std::string& name, std::int64_t rows) {
  RowRange range{rule.first, rule.last < 0 ? rows : rule.last};
  if (range.first >= rows || range.last > rows)
    throw UserError("unfrozen_parameters: '{}': tensor '{}' has {} rows", rule.text, name, rows);
  return range;
}

}  // namespace

decltype(Training::unfrozen) unfrozen_rule(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return {};
  std::vector<Rule> rules;
  for (const std::string& text : patterns) rules.push_back(parse(text));
  return [rules](const std::string& name, std::int64_t rows) {
    std::optional<RowRange> all;
    for (const Rule& rule : rules) {
      if (!std::regex_search(name, rule.pattern, std::regex_constants::match_continuous)) continue;
      RowRange range = rows_of(rule, name, rows);
      if (all && (range.first > all->last || all->first > range.last))
        throw UserError("unfrozen_parameters: '{}': rows {} to {} and {} to {} of '{}' do not hang together", rule.text,
                        all->first, all->last, range.first, range.last, name);
      all = all ? RowRange{std::min(all->first, range.first), std::max(all->last, range.last)} : range;
    }
    return all;
  };
}

}  // namespace dml
