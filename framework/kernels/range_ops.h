// Operations on a range of values on the calling thread, for callers with their own parallel loops.
#pragma once

#include <cstdint>
#include <span>

#include "core/bf16.h"

namespace dml::kernels {

/// Rounds to nearest even; NaN stays NaN. `to` has the size of `from`.
void round_to_bf16(std::span<const float> from, bf16* to);
void widen_bf16(const bf16* from, std::span<float> to);
double sum_of_squares(std::span<const float> x);

struct RowStats {
  float max;
  double sum;  // of exp(x − max)
};
RowStats row_stats(std::span<const float> x);

}  // namespace dml::kernels
