#include "train/objective/advantages.h"

#include <cmath>

#include "core/error.h"

namespace dml {
namespace {

constexpr double kMin = 1e-4;  // added to deviations

// Calls visit(first index, the values) for each group.
template <class F>
void each_group(std::span<const double> values, std::int64_t group, F visit) {
  const auto size = static_cast<std::size_t>(group);
  DML_CHECK(group > 0 && values.size() % size == 0, "{} completions in groups of {}", values.size(), group);
  for (std::size_t i = 0; i < values.size(); i += size) visit(i, values.subspan(i, size));
}

void normalize(std::span<const double> values, std::int64_t group, std::span<double> out) {
  each_group(values, group, [&](std::size_t first, std::span<const double> some) {
    const auto [mean, deviation] = mean_and_deviation(some);
    for (std::size_t i = 0; i < some.size(); ++i) out[first + i] = (some[i] - mean) / (deviation + kMin);
  });
}

}  // namespace

MeanAndDeviation mean_and_deviation(std::span<const double> values) {
  if (values.empty()) return {};
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / n;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {mean, n > 1 ? std::sqrt(squares / (n - 1)) : 0};
}

Advantages advantages_of(std::span<const std::vector<double>> rewards, const AdvantageSettings& s) {
  DML_CHECK(!rewards.empty() && rewards.size() == s.weights.size());
  const std::size_t count = rewards[0].size();
  Advantages out;
  out.rewards.assign(count, 0);
  out.values.assign(count, 0);
  std::vector<double> each(count);
  for (std::size_t r = 0; r < rewards.size(); ++r) {
    if (s.normalize_each) normalize(rewards[r], s.group, each);
    for (std::size_t i = 0; i < count; ++i) {
      out.rewards[i] += s.weights[r] * rewards[r][i];
      out.values[i] += s.weights[r] * each[i];
    }
  }
  const double of_batch = mean_and_deviation(out.rewards).deviation;
  each_group(out.rewards, s.group, [&](std::size_t first, std::span<const double> some) {
    const auto [mean, deviation] = mean_and_deviation(some);
    const auto share = static_cast<double>(some.size()) / static_cast<double>(count);
    out.reward_std += share * (s.scale == RewardScale::batch ? of_batch : deviation);
    out.zero_std += deviation < 1e-8 ? share : 0;
    if (s.normalize_each) return;
    const double divisor = s.scale == RewardScale::none    ? 1
                           : s.scale == RewardScale::batch ? of_batch + kMin
                                                           : deviation + kMin;
    for (std::size_t i = 0; i < some.size(); ++i) out.values[first + i] = (some[i] - mean) / divisor;
  });
  if (s.normalize_each) {
    const std::vector<double> sums = out.values;
    normalize(sums, static_cast<std::int64_t>(count), out.values);
  }
  return out;
}

}  // namespace dml
