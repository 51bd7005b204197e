// Row-wise int8: every row of a weight has one scale, its largest magnitude / 127; q = round(x / scale) to nearest
// even.
#pragma once

#include <cstdint>
#include <span>

#include "core/matrix.h"

namespace dml::kernels {

/// One row of n values.
void quantize_row_int8(const float* x, std::int64_t n, std::int8_t* q, float* scale);
/// q (rows × cols), scales (rows). A row of zeros gets scale 0.
void quantize_int8(ConstMat x, std::span<std::int8_t> q, std::span<float> scales);

}  // namespace dml::kernels
