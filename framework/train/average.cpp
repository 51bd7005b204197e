#include "train/average.h"

namespace dml {

void switch_to_average(const Optimizer& optimizer, DistributionStrategy& strategy) {
  if (!optimizer.averages()) return;
  strategy.update_values([&](std::span<const Shard> shards) { optimizer.switch_to_average(optimizer_slices(shards)); });
  strategy.publish();
}

void switch_to_training_point(const Optimizer& optimizer, DistributionStrategy& strategy) {
  if (!optimizer.averages()) return;
  strategy.update_values(
      [&](std::span<const Shard> shards) { optimizer.switch_to_training_point(optimizer_slices(shards)); });
  strategy.publish();
}

}  // namespace dml
