// A second set of weights beside any optimizer that follows the trained ones: s ← k·s + (1 − k)·w after each step. It
// begins as the weights that the first step starts from.
//
// The shadow is a plane of the optimizer's state, so checkpoints, resuming and sharding need no code for it.
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
  /// `name`: of the plane. `key`: of the recipe; UserError with it where `inner` averages its steps itself.
  ShadowOptimizer(std::unique_ptr<Optimizer> inner, std::string name, const char* key);
  /// k in [0, 1] after a step, when `done` steps were made before it.
  virtual double kept(std::int64_t done, const OptimizerStep& step) const = 0;

 private:
  /// Its part of a slice's state, which lies after the inner optimizer's.
  struct Own {
    float *shadow, *steps;
  };
  Own own(const OptimizerSlice& slice) const;

  std::unique_ptr<Optimizer> inner_;
  StateLayout layout_;  // the inner optimizer's
  std::string name_;
};

}  // namespace dml
