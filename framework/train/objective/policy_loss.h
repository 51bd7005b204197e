// The loss of a completion's tokens under the policy that is trained, given its advantage: the clipped ratio of
// probabilities (PPO, Schulman et al. 2017), of tokens (GRPO) or of the whole completion (GSPO, Zheng et al. 2025), and
// the divergence from a reference. Pure functions in float64, each with its derivative.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace dml {

/// How the losses of tokens are averaged over a step.
enum class PolicyAverage {
  tokens,       // over all tokens of the step (dapo)
  completions,  // over the tokens of each completion, then over completions (grpo)
  fixed,        // over completions × the longest length that they may have (dr_grpo)
};

struct PolicySettings {
  double epsilon_low = 0.2, epsilon_high = 0.2;  // the ratio is clipped to [1 − low, 1 + high]
  std::optional<double> delta = {};              // and, whatever the advantage, bounded by this
  double beta = 0;                               // weight of the divergence from the reference
  bool sequence_level = false;                   // one ratio of the completion: exp of the mean over its tokens
  PolicyAverage average = PolicyAverage::tokens;
  std::int64_t longest = 512;  // tokens that a completion may have
};

/// A token's loss, and the derivative of the sum over its completion's tokens by this token's log p.
struct PolicyToken {
  double value = 0, by_logp = 0;
  double kl = 0;
  bool clipped_low = false, clipped_high = false;
};

/// logps, old, reference: log p of the tokens of one completion now, when it was generated, and under the reference;
/// `old` empty: as now; `reference` empty where beta is 0.
void policy_losses(std::span<const double> logps, std::span<const double> old, std::span<const double> reference,
                   double advantage, const PolicySettings& settings, std::span<PolicyToken> out);

}  // namespace dml
