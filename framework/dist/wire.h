// The form of gradients in messages: float32, or rounded to bfloat16 with error feedback (Seide et al. 2014,
// Karimireddy et al. 2019): the rounding error is stored and added to the next value sent, so errors do not accumulate
// over steps.
//
//   send c = bf16(x + e);  e ← bf16(x + e − c)
//
// It needs no extra memory: the packed form of n floats occupies the upper half of the same 4n bytes, where it is also
// received and from where it is unpacked. Sums stay float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/arena.h"
#include "core/bf16.h"
#include "core/dtype.h"
#include "nn/parameter.h"

namespace dml {

struct Wire {
  DType type = DType::f32;  // or bf16

  /// The bytes sent for, or received into, n floats (n even).
  std::span<std::byte> bytes(float* data, std::int64_t n) const;
  /// Converts in place before sending. Adds `residual` (n values) and stores the rounding error there; null: the error
  /// is dropped.
  void pack(float* data, std::int64_t n, bf16* residual) const;
  /// Converts back in place, after receiving or in order to use the rounded values that were sent.
  void unpack(float* data, std::int64_t n) const;
};

/// Rounding errors of this rank that were not sent yet, for every element of every unit; empty if nothing is rounded.
class Residuals {
 public:
  Residuals() = default;
  Residuals(const ParameterStore& store, Wire wire, int ranks);
  /// The residuals of a unit; null if nothing is rounded.
  bf16* of(std::size_t unit) const { return units_.empty() ? nullptr : units_[unit].data(); }
  std::span<const std::span<bf16>> units() const { return units_; }
  static std::int64_t bytes(const ParameterStore& store, Wire wire, int ranks);

 private:
  Arena memory_;
  std::vector<std::span<bf16>> units_;
};

}  // namespace dml
