#include "train/average.h"

namespace dml {

void show_average(const Optimizer& optimizer, DistributionStrategy& strategy) {
  if (!optimizer.averages()) return;
  optimizer.show_average(optimizer_slices(strategy.shards()));
  strategy.publish();
}

void show_training_point(const Optimizer& optimizer, DistributionStrategy& strategy) {
  if (!optimizer.averages()) return;
  optimizer.show_training_point(optimizer_slices(strategy.shards()));
  strategy.publish();
}

}  // namespace dml
