#include "train/preference_warnings.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "core/log.h"

namespace dml {
namespace {

constexpr std::size_t kSteps = 5;    // steps averaged at the beginning and at the end
constexpr double kMaxFall = 0.2;     // of the chosen answers' log-probability
constexpr double kLargeMargin = 10;  // of rewards; far more than separates answers
constexpr double kMaxGrowth = 1.5;   // of the model's own answers …
constexpr double kManyCut = 0.3;     // … where so many of them do not end by themselves
constexpr double kManyEqual = 0.9;   // of completions whose question has equal rewards

constexpr std::array<std::string_view, 6> kNames = {
    "logps/chosen",        "logps/rejected", "rewards/margins", "completions/mean_length", "completions/clipped_ratio",
    "frac_reward_zero_std"};

}  // namespace

Action PreferenceWarnings::on_step(const StepMetrics& metrics) {
  static_assert(kNames.size() == kValues);
  Values now;
  now.fill(std::numeric_limits<double>::quiet_NaN());
  for (const NamedValue& v : metrics.values)
    for (std::size_t i = 0; i < kValues; ++i)
      if (v.name == kNames[i]) now[i] = v.value;
  ++seen_;
  if (first_.size() < kSteps) first_.push_back(now);
  last_.push_back(now);
  if (last_.size() > kSteps) last_.pop_front();
  return {};
}

// Comparisons with NaN are false, so values that were not logged give no warning.
std::vector<std::string> PreferenceWarnings::warnings() const {
  std::vector<std::string> out;
  if (seen_ < static_cast<std::int64_t>(2 * kSteps)) return out;
  auto mean = [](const auto& steps, Value which) {  // of the steps that logged it; NaN if none did
    double sum = 0, count = 0;
    for (const Values& v : steps)
      if (!std::isnan(v[which])) sum += v[which], count += 1;
    return sum / count;
  };
  const double before = mean(first_, kChosen), after = mean(last_, kChosen), margin = mean(last_, kMargin);
  if (after < before - kMaxFall * std::abs(before))
    out.push_back(fmt::format(
        "logps/chosen fell from {:.1f} to {:.1f}: the chosen answers became less likely, too (logps/rejected from "
        "{:.1f} to {:.1f}); to counter this, add an sft loss, use apo_zero, raise rl_beta or lower learning_rate",
        before, after, mean(first_, kRejected), mean(last_, kRejected)));
  if (margin > kLargeMargin)
    out.push_back(fmt::format(
        "rewards/margins reached {:.1f}, far more than needed: the model has moved far from the reference; lower "
        "learning_rate, use fewer epochs or raise rl_beta",
        margin));
  const double length = mean(last_, kLength), cut = mean(last_, kCut), equal = mean(last_, kEqual);
  if (length > kMaxGrowth * mean(first_, kLength) && cut > kManyCut)
    out.push_back(
        fmt::format("the model's answers grew from {:.0f} to {:.0f} tokens, and {:.0f} % of them are cut "
                    "off; to counter this, use a length reward, mask_truncated_completions or loss_type: dr_grpo",
                    mean(first_, kLength), length, 100 * cut));
  if (equal > kManyEqual)
    out.push_back(
        fmt::format("{:.0f} % of the answers train nothing, since all rewards of their question are equal; use "
                    "easier or harder questions, more num_generations or a reward with more than two values",
                    100 * equal));
  return out;
}

void PreferenceWarnings::on_end(const RunEnd&) {
  for (const std::string& line : warnings()) log_warning("{}", line);
}

}  // namespace dml
