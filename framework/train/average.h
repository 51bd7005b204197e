// The weights of a schedule-free optimizer: trained at one point, evaluated and saved at another (optim/optimizer.h).
// For other optimizers nothing happens.
#pragma once

#include "dist/strategy.h"
#include "optim/optimizer.h"

namespace dml {

/// Replaces the values by the average on every rank. A collective, outside of steps.
void show_average(const Optimizer& optimizer, DistributionStrategy& strategy);
/// Back to the training point, to the bit; also after optimizer state was read from a checkpoint.
void show_training_point(const Optimizer& optimizer, DistributionStrategy& strategy);

/// work() with the average as the values.
template <class F>
auto with_average(const Optimizer& optimizer, DistributionStrategy& strategy, F work) {
  show_average(optimizer, strategy);
  auto result = work();
  show_training_point(optimizer, strategy);
  return result;
}

}  // namespace dml
