#include "train/objective/policy_loss.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace dml {
namespace {

PolicyToken clipped(double log_ratio, double advantage, const PolicySettings& s) {
  const double ratio = std::exp(log_ratio);
  const double bounded = s.delta ? std::min(ratio, *s.delta) : ratio;
  const double inside = std::clamp(ratio, 1 - s.epsilon_low, 1 + s.epsilon_high);
  PolicyToken out;
  out.value = -std::min(bounded * advantage, inside * advantage);
  const bool moves = bounded * advantage <= inside * advantage ? bounded == ratio : inside == ratio;
  out.by_logp = moves ? -advantage * ratio : 0;
  out.clipped_low = ratio < 1 - s.epsilon_low && advantage < 0;
  out.clipped_high = ratio > 1 + s.epsilon_high && advantage > 0;
  return out;
}

}  // namespace

void policy_losses(std::span<const double> logps, std::span<const double> old, std::span<const double> reference,
                   double advantage, const PolicySettings& s, std::span<PolicyToken> out) {
  DML_CHECK(out.size() == logps.size() && (old.empty() || old.size() == logps.size()) &&
            (s.beta == 0 || reference.size() == logps.size()));
  const auto log_ratio = [&](std::size_t t) { return old.empty() ? 0 : logps[t] - old[t]; };
  double mean = 0;
  for (std::size_t t = 0; t < logps.size(); ++t) mean += log_ratio(t) / static_cast<double>(logps.size());
  for (std::size_t t = 0; t < logps.size(); ++t) {
    // One ratio for all n tokens: n losses that each depend on every log p by a share of 1/n.
    out[t] = clipped(s.sequence_level ? mean : log_ratio(t), advantage, s);
    if (s.beta == 0) continue;
    const double further = reference[t] - logps[t];
    out[t].kl = std::exp(further) - further - 1;
    out[t].value += s.beta * out[t].kl;
    out[t].by_logp += s.beta * (1 - std::exp(further));
  }
}

}  // namespace dml
