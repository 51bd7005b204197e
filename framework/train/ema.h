// An exponential moving average of the weights beside any optimizer: s ← d·s + (1 − d)·w after each step, d = min(decay,
// (1 + t)/(10 + t)) after t steps, so that the first weights are soon forgotten. The average is evaluated, sampled and saved;
// training continues from the weights themselves.
//
// The average is a plane of the optimizer's state, so checkpoints, resuming and sharding need to know nothing of it. Where it
// is shown, it and the weights have changed places.
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace dml {

class AveragedOptimizer : public Optimizer {
 public:
  /// UserError when `inner` averages its steps itself.
  AveragedOptimizer(std::unique_ptr<Optimizer> inner, double decay);

  StateLayout state() const override;
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override;
  std::size_t working_bytes(const Parameter& parameter) const override { return inner_->working_bytes(parameter); }
  bool averages() const override { return true; }
  void show_average(std::span<const OptimizerSlice> slices) const override;
  void show_training_point(std::span<const OptimizerSlice> slices) const override { show_average(slices); }
  std::string advice() const override { return inner_->advice(); }

 private:
  /// Its part of a slice's state, which lies behind the inner optimizer's.
  struct Own {
    float *average, *steps;
  };
  Own own(const OptimizerSlice& slice) const;

  std::unique_ptr<Optimizer> inner_;
  StateLayout layout_;  // the inner optimizer's
  double decay_;
};

}  // namespace dml
