#include "pipeline/run_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace dml {
namespace {

constexpr std::size_t kMinSteps = 10;  // fewer are not comparable: each step has other examples

double mean_loss(std::span<const StepMetrics> steps) {
  double sum = 0, count = 0;
  for (const StepMetrics& m : steps)
    if (std::isfinite(m.loss)) sum += m.loss, count += 1;  // a step that was skipped has none
  return sum / count;
}

double mean(std::span<const double> values) {
  return std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

}  // namespace

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
  const std::vector<double> rewards = rewards_of(steps);
  if (rewards.empty()) return std::nullopt;
  return mean(std::span(rewards).last(std::max<std::size_t>(1, rewards.size() / 10)));
}

RunOutcome outcome_of(const std::vector<StepMetrics>& steps, const std::vector<EvalMetrics>& all_evals,
                      std::int64_t result_step) {
  if (const std::vector<double> rewards = rewards_of(steps); !rewards.empty()) {
    if (rewards.size() < kMinSteps) return {};
    const std::span<const double> all(rewards);
    const std::size_t tenth = rewards.size() / 10;
    return {"reward", mean(all.first(tenth)), mean(all.last(tenth)), true};
  }
  const std::vector<EvalMetrics> evals = with_loss(all_evals);
  auto result = std::ranges::find(evals, result_step, &EvalMetrics::step);
  if (evals.size() > 1 && result != evals.end() && result != evals.begin())
    return {"validation loss", evals.front().loss(), result->loss()};
  if (steps.size() < kMinSteps) return {};
  const std::span<const StepMetrics> all(steps);
  const std::size_t tenth = steps.size() / 10;
  return {"training loss", mean_loss(all.first(tenth)), mean_loss(all.last(tenth))};
}

}  // namespace dml
