#include "train/average.h"

namespace dml {

void show_average(const Optimizer& optimizer, DistributionStrategy& strategy) {
  if (!optimizer.averages()) return;
  strategy.update_values([&](std::span<const Shard> shards) { optimizer.show_average(optimizer_slices(shards)); });
  strategy.publish();
}

void show_training_point(const Optimizer& optimizer, DistributionStrategy& strategy) {
  if (!optimizer.averages()) return;
  strategy.update_values(
      [&](std::span<const Shard> shards) { optimizer.show_training_point(optimizer_slices(shards)); });
  strategy.publish();
}

}  // namespace dml
