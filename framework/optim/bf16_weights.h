// Wraps an optimizer for weights in bfloat16 without a float32 copy. A step computes w' from w in float32, which is
// rounded:
//   kahan        c += w' − w; w = bf16(w + c); c = bf16(c + w_before − w), as in optimi:
//                the rounding error is carried to the next step
//   stochastic   w' plus 16 random bits below bfloat16's mantissa, truncated: unbiased. The bits are random
//                numbers of (seed, parameter, step, element), so they depend on neither ranks nor restarts
// In full fine-tuning, values are stored in bfloat16 (ParameterStore::bf16_values); for adapters they are float32 with
// values of bfloat16. The compensation c is bfloat16. The inner optimizer works on a float32 copy of one slice at a
// time.
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace dml {

enum class WeightRounding { kahan, stochastic };

class Bf16Optimizer : public Optimizer {
 public:
  /// Throws UserError if `inner` averages its steps, since the average would be rounded, too.
  Bf16Optimizer(std::unique_ptr<Optimizer> inner, WeightRounding rounding, std::uint64_t seed);

  StateLayout state() const override;
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override;
  std::size_t working_bytes(const Parameter& parameter) const override;
  std::string advice() const override { return inner_->advice(); }

 private:
  bool kahan() const { return rounding_ == WeightRounding::kahan; }
  template <class T>
  void update(std::span<T> values, const OptimizerSlice& slice, const OptimizerStep& step) const;
  /// `updated`: the values after the inner optimizer's step.
  template <class T>
  void round_with_kahan(std::span<const float> updated, std::span<T> values, const OptimizerSlice& slice) const;
  template <class T>
  void round_at_random(std::span<const float> updated, std::span<T> values, const OptimizerSlice& slice,
                       std::int64_t step) const;

  std::unique_ptr<Optimizer> inner_;
  StateLayout layout_;  // the inner optimizer's
  WeightRounding rounding_;
  std::uint64_t seed_;
};

/// Adds 16 random bits below bfloat16's mantissa to x and truncates to bfloat16.
float rounded_stochastically(float x, std::uint32_t sixteen_bits);

}  // namespace dml
