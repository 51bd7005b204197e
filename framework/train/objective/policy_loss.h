// The policy-gradient loss of a completion's tokens, given its advantage: the clipped ratio of probabilities (PPO,
// Schulman et al. 2017) per token (GRPO) or per completion (GSPO, Zheng et al. 2025), plus the KL divergence from a
// reference. Pure functions in float64, each with its derivative.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace dml {

/// How the losses of tokens are averaged over a step.
enum class PolicyAverage {
  tokens,       // over all tokens of the step (dapo)
  completions,  // over the tokens of each completion, then over completions (grpo)
  fixed,        // over completions × the maximum completion length (dr_grpo)
};

struct PolicySettings {
  double epsilon_low = 0.2, epsilon_high = 0.2;  // the ratio is clipped to [1 − low, 1 + high]
  std::optional<double> delta = {};              // upper bound of the ratio, whatever the sign of the advantage
  double beta = 0;                               // weight of the KL divergence from the reference
  bool sequence_level = false;  // one ratio per completion: the exponential of the mean log ratio of its tokens
  PolicyAverage average = PolicyAverage::tokens;
  std::int64_t longest = 512;  // maximum completion length in tokens
};

/// The loss of one token, and the derivative of the completion's summed loss with respect to this token's log p.
struct PolicyToken {
  double value = 0, by_logp = 0;
  double kl = 0;
  bool clipped_low = false, clipped_high = false;
};

/// Computes the losses of one completion's tokens. logps, old, reference: log p of its tokens now, when it was
/// generated, and under the reference. `old` empty: the same as `logps`; `reference` is empty if beta is 0.
void policy_losses(std::span<const double> logps, std::span<const double> old, std::span<const double> reference,
                   double advantage, const PolicySettings& settings, std::span<PolicyToken> out);

}  // namespace dml
