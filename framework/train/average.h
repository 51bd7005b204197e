// Switches between the two sets of weights of an optimizer that averages: it trains one and evaluates and saves the
// other (optim/optimizer.h). With any other optimizer these functions do nothing.
#pragma once

#include "dist/strategy.h"
#include "optim/optimizer.h"

namespace dml {

/// Replaces the values by their average on every rank. A collective, called between steps.
void switch_to_average(const Optimizer& optimizer, DistributionStrategy& strategy);
/// Restores the trained values, bit by bit. Also called after optimizer state was read from a checkpoint.
void switch_to_training_point(const Optimizer& optimizer, DistributionStrategy& strategy);

/// Calls work() while the average is in place; returns its result.
template <class F>
auto with_average(const Optimizer& optimizer, DistributionStrategy& strategy, F work) {
  switch_to_average(optimizer, strategy);
  auto result = work();
  switch_to_training_point(optimizer, strategy);
  return result;
}

}  // namespace dml
