// The dtypes of stored weights: how each is unpacked and sliced. A new one is a row of core/dtype.h (its bytes) and a
// row here or, for a block format of ggml, in quant_ggml.cpp. No other code needs the dtype to read values; products
// that read weights without unpacking are in kernels/simd.
#pragma once

#include <cstdint>

#include "kernels/weight.h"

namespace dml::kernels {

struct StoredFormat {
  DType dtype;
  /// The number of values that share a scale of Weight::scales or scale_codes; kRow: those of a row; 0: no such scales.
  std::int64_t scaled;
  /// Writes w[row][col … col + n) as float32, on the calling thread.
  void (*unpack)(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out);

  static constexpr std::int64_t kRow = -1;
};

/// The format of a dtype that a Weight can have.
const StoredFormat& stored_format(DType dtype);

/// Whether values are codes with scales (separate or in blocks), not floating-point numbers.
inline bool is_quantized(DType dtype) { return dtype_row(dtype).values > 1 || stored_format(dtype).scaled != 0; }
/// The number of scales of a weight: one per row, or per block.
std::int64_t scale_count(const Weight& w);

}  // namespace dml::kernels
