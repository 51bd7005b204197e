// Losses of single answers labeled desirable or undesirable (KTO, Ethayarajh et al. 2024; formulas as in TRL's
// KTOTrainer).
#pragma once

namespace dml {

struct UnpairedSettings {
  double beta = 0.1;
  double desirable_weight = 1, undesirable_weight = 1;
  bool apo_zero = false;  // apo_zero_unpaired, which does not use the divergence
};

/// A loss, and its derivative with respect to the answer's sum of log-probabilities.
struct UnpairedLoss {
  double value = 0, by_score = 0;
};

/// gain: the answer's sum of log-probabilities minus that under the reference. divergence: estimate of the KL
/// divergence from the reference, max(0, mean gain of mismatched prompts and answers) over the global batch; a constant
/// in the gradient.
UnpairedLoss unpaired_loss(double gain, bool desirable, double divergence, const UnpairedSettings& settings);

}  // namespace dml
