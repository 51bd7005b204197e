#include "train/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace dml {

std::optional<double> EvalMetrics::value(std::string_view name) const {
  const auto found = std::ranges::find(values, name, &NamedValue::name);
  return found == values.end() ? std::nullopt : std::optional(found->value);
}

double EvalMetrics::loss() const { return value(kEvalLoss).value_or(std::numeric_limits<double>::quiet_NaN()); }

std::vector<EvalMetrics> with_loss(const std::vector<EvalMetrics>& evals) {
  std::vector<EvalMetrics> out;
  std::ranges::copy_if(evals, std::back_inserter(out),
                       [](const EvalMetrics& e) { return e.value(kEvalLoss).has_value(); });
  return out;
}

std::string eval_line(const EvalMetrics& eval) {
  std::vector<std::string> parts;
  for (const NamedValue& v : eval.values)
    parts.push_back(v.name == kEvalLoss         ? fmt::format("validation loss {:.4f}", v.value)
                    : v.name == kEvalPerplexity ? fmt::format("perplexity {:.2f}", v.value)
                                                : fmt::format("{} {:.4f}", v.name, v.value));
  return fmt::format("step {}: {}", eval.step, fmt::join(parts, ", "));
}

}  // namespace dml
