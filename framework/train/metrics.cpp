#include "train/metrics.h"

#include <algorithm>
#include <cmath>
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
  std::ranges::copy_if(evals, std::back_inserter(out), [](const EvalMetrics& e) { return e.value(kEvalLoss).has_value(); });
  return out;
}

double EvalMetrics::perplexity() const { return std::exp(loss()); }

}  // namespace dml
