#include "train/objective/unpaired_loss.h"

#include "train/objective/logistic.h"

namespace dml {

UnpairedLoss unpaired_loss(double gain, bool desirable, double divergence, const UnpairedSettings& s) {
  const double weight = desirable ? s.desirable_weight : s.undesirable_weight, sign = desirable ? 1 : -1;
  const double x = sign * s.beta * (gain - (s.apo_zero ? 0 : divergence));
  return {weight * sigmoid(-x), -weight * sign * s.beta * sigmoid(x) * sigmoid(-x)};
}

}  // namespace dml
