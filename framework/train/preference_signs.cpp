#include "train/preference_signs.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "core/log.h"

namespace dml {
namespace {

constexpr std::size_t kSteps = 5;       // that are averaged at each end
constexpr double kMostFall = 0.2;       // of the chosen answers' log-probability
constexpr double kLargeMargin = 10;     // of rewards: far beyond what tells answers apart

std::optional<double> value(const StepMetrics& metrics, std::string_view name) {
  for (const NamedValue& v : metrics.values)
    if (v.name == name) return v.value;
  return std::nullopt;
}

}  // namespace

Action PreferenceSigns::on_step(const StepMetrics& metrics) {
  const auto chosen = value(metrics, "logps/chosen"), rejected = value(metrics, "logps/rejected"),
             margin = value(metrics, "rewards/margins");
  if (!chosen || !rejected || !margin) return {};
  const Values now{*chosen, *rejected, *margin};
  ++seen_;
  if (first_.size() < kSteps) first_.push_back(now);
  last_.push_back(now);
  if (last_.size() > kSteps) last_.pop_front();
  return {};
}

std::vector<std::string> PreferenceSigns::warnings() const {
  std::vector<std::string> out;
  if (seen_ < static_cast<std::int64_t>(2 * kSteps)) return out;
  auto mean = [](const auto& values, double Values::*which) {
    double sum = 0;
    for (const Values& v : values) sum += v.*which;
    return sum / static_cast<double>(values.size());
  };
  const double before = mean(first_, &Values::chosen), after = mean(last_, &Values::chosen),
               margin = mean(last_, &Values::margin);
  if (after < before - kMostFall * std::abs(before))
    out.push_back(fmt::format(
        "logps/chosen fell from {:.1f} to {:.1f}: the chosen answers became less likely, too (logps/rejected from {:.1f} to "
        "{:.1f}); an sft loss beside it, apo_zero, a larger rl_beta or a lower learning_rate hold them up",
        before, after, mean(first_, &Values::rejected), mean(last_, &Values::rejected)));
  if (margin > kLargeMargin)
    out.push_back(fmt::format("rewards/margins reached {:.1f}: far more than tells answers apart; a lower learning_rate, fewer "
                              "epochs or a larger rl_beta keep more of the model at the start", margin));
  return out;
}

void PreferenceSigns::on_end(const RunEnd&) {
  for (const std::string& line : warnings()) log_warning("{}", line);
}

}  // namespace dml
