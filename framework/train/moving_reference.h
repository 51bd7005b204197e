// A reference that follows the trained weights (TR-DPO, Gorbatovski et al. 2024; sync_ref_model of TRL): after every
// `steps` steps r ← α·w + (1 − α)·r. The first reference is what the run starts from.
#pragma once

#include <memory>
#include <utility>

#include "dist/strategy.h"
#include "train/shadow.h"

namespace dml {

class ReferenceOptimizer : public ShadowOptimizer {
 public:
  /// alpha in (0, 1], steps > 0. UserError when `inner` averages its steps, because the weights it trains are not the
  /// run's result.
  ReferenceOptimizer(std::unique_ptr<Optimizer> inner, double alpha, std::int64_t steps)
      : ShadowOptimizer(std::move(inner), "reference", "trl.sync_ref_model"), alpha_(alpha), steps_(steps) {}

 private:
  double decay(std::int64_t, const OptimizerStep& step) const override {
    return (step.number + 1) % steps_ == 0 ? 1 - alpha_ : 1;
  }

  double alpha_;
  std::int64_t steps_;
};

/// Swaps the weights and the reference of a ReferenceOptimizer on every rank. A collective, called between steps.
inline void swap_reference(const Optimizer& optimizer, DistributionStrategy& strategy) {
  const auto& moving = dynamic_cast<const ReferenceOptimizer&>(optimizer);
  strategy.update_values([&](std::span<const Shard> shards) { moving.swap(optimizer_slices(shards)); });
  strategy.publish();
}

}  // namespace dml
