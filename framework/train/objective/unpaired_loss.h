// Losses of single answers that people found good or bad (KTO, Ethayarajh et al. 2024; formulas as in TRL's
// KTOTrainer).
#pragma once

namespace dml {

struct UnpairedSettings {
  double beta = 0.1;
  double desirable_weight = 1, undesirable_weight = 1;
  bool apo_zero = false;  // apo_zero_unpaired: without the divergence
};

/// A loss, and its derivative by the sum of the answer's log-probabilities.
struct UnpairedLoss {
  double value = 0, by_score = 0;
};

/// gain: the answer's sum of log-probabilities less that of the reference. divergence: how far the model has moved from
/// the reference, max(0, mean gain of answers to other prompts) over the whole batch of a step; it has no gradient.
UnpairedLoss unpaired_loss(double gain, bool desirable, double divergence, const UnpairedSettings& settings);

}  // namespace dml
