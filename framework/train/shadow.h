// A second set of weights (shadow) that follows the trained ones under any optimizer: s ← k·s + (1 − k)·w after each
// step. It starts as a copy of the weights before the first step.
//
// The shadow is an additional array of the optimizer's state, so checkpointing, resuming and sharding need no extra
// code.
#pragma once

#include <memory>
#include <string>

#include "optim/optimizer.h"

namespace dml {

class ShadowOptimizer : public Optimizer {
 public:
  StateLayout state() const override;
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override;
  std::size_t working_bytes(const Parameter& parameter) const override { return inner_->working_bytes(parameter); }
  std::string advice() const override { return inner_->advice(); }
  /// Swaps weights and shadow; does nothing before the first step.
  void swap(std::span<const OptimizerSlice> slices) const;

 protected:
  /// `name`: the name of the plane. `key`: the recipe key that a UserError names when `inner` averages its steps
  /// itself.
  ShadowOptimizer(std::unique_ptr<Optimizer> inner, std::string name, const char* key);
  /// k in [0, 1] of the update after a step; `done` steps were made before that step.
  virtual double decay(std::int64_t done, const OptimizerStep& step) const = 0;

 private:
  /// The shadow's part of a slice's state, which follows the inner optimizer's.
  struct Own {
    float *shadow, *steps;
  };
  Own own(const OptimizerSlice& slice) const;

  std::unique_ptr<Optimizer> inner_;
  StateLayout layout_;  // the inner optimizer's
  std::string name_;
};

}  // namespace dml
