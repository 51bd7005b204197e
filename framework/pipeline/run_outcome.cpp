#include "pipeline/run_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace dml {
namespace {

constexpr std::size_t kMinSteps = 10;  // fewer are not comparable: each step has other examples

// The mean over a step. The variance of such a mean is inversely proportional to its weight.
struct StepValue {
  double value = 0, weight = 1;
};

std::vector<StepValue> loss_values(const std::vector<StepMetrics>& steps) {
  std::vector<StepValue> out;
  for (const StepMetrics& m : steps)
    out.push_back({m.loss, static_cast<double>(std::max<std::int64_t>(1, m.trained_tokens))});
  return out;
}

// A step that was skipped has no value.
double mean(std::span<const StepValue> steps) {
  double sum = 0, count = 0;
  for (const StepValue& s : steps)
    if (std::isfinite(s.value)) sum += s.value, count += 1;
  return sum / count;
}

double variance_of_mean(std::span<const StepValue> steps) {
  double sum = 0, count = 0;
  for (const StepValue& s : steps)
    if (std::isfinite(s.value)) sum += 1 / s.weight, count += 1;
  return sum / (count * count);
}

// The standard deviation of a value of weight 1, from the differences between neighbors: what the run learns changes
// them little. Their median is not changed by the jump of a run that diverges.
double spread(std::span<const StepValue> steps) {
  constexpr double kMedianOfNormal = 0.6745;  // of |x|, where x is standard normal
  std::vector<double> jumps;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const StepValue &a = steps[i - 1], &b = steps[i];
    if (const double jump = std::abs(b.value - a.value) / std::sqrt(1 / a.weight + 1 / b.weight); std::isfinite(jump))
      jumps.push_back(jump);
  }
  if (jumps.empty()) return 0;
  const auto middle = jumps.begin() + std::ssize(jumps) / 2;
  std::ranges::nth_element(jumps, middle);
  return *middle / kMedianOfNormal;
}

RunOutcome outcome_of_values(std::string what, std::span<const StepValue> steps, bool greater_is_better) {
  if (steps.empty()) return {};
  const std::size_t tenth = std::max<std::size_t>(1, steps.size() / 10);
  const auto first = steps.first(tenth), last = steps.last(tenth);
  return {std::move(what),
          mean(first),
          mean(last),
          greater_is_better,
          spread(steps) * std::sqrt(variance_of_mean(first) + variance_of_mean(last)),
          tenth,
          steps.size()};
}

}  // namespace

// A value that is not finite counts as worse.
bool RunOutcome::worse() const {
  constexpr double kClear = 4;  // standard errors
  return !what.empty() && !(greater_is_better ? last >= first - kClear * noise : last <= first + kClear * noise);
}

std::string RunOutcome::text() const {
  return what.empty() ? "" : fmt::format("{} {:.4f} → {:.4f}", what, first, last);
}

std::vector<double> rewards_of(const std::vector<StepMetrics>& steps) {
  std::vector<double> out;
  for (const StepMetrics& m : steps)
    for (const NamedValue& v : m.values)
      if (v.name == "reward") out.push_back(v.value);
  return out;
}

std::optional<double> last_reward(const std::vector<StepMetrics>& steps) {
  if (rewards_of(steps).empty()) return std::nullopt;
  return outcome_of_tenths(steps).last;
}

RunOutcome outcome_of_tenths(const std::vector<StepMetrics>& steps) {
  std::vector<StepValue> values;
  for (double reward : rewards_of(steps)) values.push_back({reward});
  if (!values.empty()) return outcome_of_values("reward", values, true);
  return outcome_of_values("training loss", loss_values(steps), false);
}

RunOutcome outcome_of(const std::vector<StepMetrics>& steps, const std::vector<EvalMetrics>& all_evals,
                      std::int64_t result_step) {
  if (rewards_of(steps).empty()) {
    const std::vector<EvalMetrics> evals = with_loss(all_evals);
    auto result = std::ranges::find(evals, result_step, &EvalMetrics::step);
    if (evals.size() > 1 && result != evals.end() && result != evals.begin())
      return {kValidationLoss, evals.front().loss(), result->loss()};
  }
  RunOutcome of_steps = outcome_of_tenths(steps);
  return of_steps.steps < kMinSteps ? RunOutcome() : of_steps;
}

}  // namespace dml
