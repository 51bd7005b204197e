// Weights in bfloat16 without a float32 copy, beside any optimizer. A step computes w' from w in float32; what is kept
// of it:
//   kahan        c += w' − w; w = bf16(w + c); c = bf16(c + w_before − w), as optimi does it:
//                the rounding error is carried to the next step
//   stochastic   w' plus 16 random bits below bfloat16's mantissa, cut off: right on average. The bits are random
//                numbers of (seed, parameter, step, element), so they depend on neither ranks nor restarts
// Values lie in bfloat16 where a run trains all weights (ParameterStore::bf16_values), and in float32 with bfloat16's
// values where it trains an adapter. The compensation c is bfloat16, too. The rule inside works on a float32 copy of
// one slice at a time.
#pragma once

#include <memory>

#include "optim/optimizer.h"

namespace dml {

enum class WeightRounding { kahan, stochastic };

class Bf16Optimizer : public Optimizer {
 public:
  /// UserError when `inner` averages its steps: the average would be rounded, too.
  Bf16Optimizer(std::unique_ptr<Optimizer> inner, WeightRounding rounding, std::uint64_t seed);

  StateLayout state() const override;
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const override;
  std::size_t working_bytes(const Parameter& parameter) const override;
  std::string advice() const override { return inner_->advice(); }

 private:
  bool kahan() const { return rounding_ == WeightRounding::kahan; }
  template <class T>
  void update(std::span<T> values, const OptimizerSlice& slice, const OptimizerStep& step) const;
  /// `updated`: what the rule inside has made of the values.
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

/// x with 16 random bits added below bfloat16's mantissa, cut to bfloat16.
float rounded_stochastically(float x, std::uint32_t sixteen_bits);

}  // namespace dml
