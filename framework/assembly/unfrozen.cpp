#include "assembly/unfrozen.h"

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/regex.h"
#include "model/weight_names.h"
#include "recipe/row_pattern.h"

namespace dml {
namespace {

struct Rule {
  RowPattern rows;
  std::shared_ptr<const Regex> pattern;  // shared: std::function requires copies
};

UnfrozenRows rows_of(const Rule& rule, const std::string& name, std::int64_t rows) {
  UnfrozenRows range{rule.rows.first, rule.rows.last < 0 ? rows : rule.rows.last};
  if (range.first >= rows || range.last > rows)
    throw UserError("unfrozen_parameters: '{}': tensor '{}' has {} rows", rule.rows.text, name, rows);
  return range;
}

}  // namespace

decltype(Training::unfrozen) unfrozen_rule(const std::vector<std::string>& patterns) {
  if (patterns.empty()) return {};
  std::vector<Rule> rules;
  for (const std::string& text : patterns) {
    RowPattern rows = parse_row_pattern(text);
    rules.push_back({rows, std::make_shared<const Regex>(rows.pattern, "unfrozen_parameters")});
  }
  return [rules](const std::string& name, std::int64_t rows) {
    std::optional<UnfrozenRows> all;
    for (const Rule& rule : rules) {
      if (!rule.pattern->matches_start(name)) continue;
      UnfrozenRows range = rows_of(rule, name, rows);
      if (all && (range.first > all->last || all->first > range.last))
        throw UserError("unfrozen_parameters: '{}': rows {} to {} and {} to {} of '{}' leave a gap", rule.rows.text,
                        all->first, all->last, range.first, range.last, name);
      all = all ? UnfrozenRows{std::min(all->first, range.first), std::max(all->last, range.last)} : range;
    }
    return all;
  };
}

std::vector<std::string> idle_unfrozen_patterns(const std::vector<std::string>& patterns, const ModelSpec& spec) {
  const std::vector<WeightName> weights = weight_names(spec);
  std::vector<std::string> out;
  for (const std::string& text : patterns) {
    const Regex pattern(parse_row_pattern(text).pattern, "unfrozen_parameters");
    if (std::ranges::none_of(weights, [&](const WeightName& w) { return pattern.matches_start(w.tensor); }))
      out.push_back(
          fmt::format("unfrozen_parameters: '{}' matches no parameter; it is matched from the beginning of "
                      "names such as {}",
                      text, weights.at(weights.size() / 2).tensor));
  }
  return out;
}

}  // namespace dml
