// An exponential moving average of the weights beside any optimizer: s ← d·s + (1 − d)·w after each step, d =
// min(decay, (1 + t)/(10 + t)) with t steps before it, so that the first weights are soon forgotten. The average is
// evaluated, sampled and saved; training continues from the weights themselves.
//
// While the average is in use, it and the trained weights are swapped.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "train/shadow.h"

namespace dml {

class AveragedOptimizer : public ShadowOptimizer {
 public:
  /// UserError when `inner` averages its steps itself.
  AveragedOptimizer(std::unique_ptr<Optimizer> inner, double decay)
      : ShadowOptimizer(std::move(inner), "average", "ema_decay"), decay_(decay) {}

  bool averages() const override { return true; }
  void switch_to_average(std::span<const OptimizerSlice> slices) const override { swap(slices); }
  void switch_to_training_point(std::span<const OptimizerSlice> slices) const override { swap(slices); }

 private:
  double decay(std::int64_t done, const OptimizerStep&) const override {
    const auto t = static_cast<double>(done);
    return std::min(decay_, (1 + t) / (10 + t));
  }

  double decay_;
};

}  // namespace dml
