// Dynamic Fine-Tuning (Wu et al. 2025, arXiv 2508.05629): the loss of a token is −sg(p) · log p, p the probability of
// its label and sg a constant in the gradient. The gradient is p times that of cross-entropy: tokens that the model
// finds unlikely contribute little. As in TRL (loss_type: dft), the sum is divided by the number of trained tokens.
#include <cmath>

#include "core/error.h"
#include "train/objective_rows.h"
#include "train/token_loss.h"

namespace dml {

ObjectiveRows dynamic_fine_tuning_rows() {
  const auto probability = [](double cross_entropy) { return std::exp(-cross_entropy); };
  const auto make = [probability](const ObjectiveSettings& s) {
    if (s.extra) throw UserError("objective: dft does not work with label_smoothing_factor and z_loss; remove them");
    return std::make_unique<TokenLoss>(s.extra, s.weighted, probability);
  };
  return {{"dft",
           "Dynamic Fine-Tuning: cross-entropy times the probability of the token, which is a constant in the gradient",
           {.make = make, .of_tokens = true, .flags = {"use_dynamic_finetuning", "use_dft"}}}};
}

}  // namespace dml
