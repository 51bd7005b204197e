// The types in which weights are stored, a row each: how a row is unpacked, how a slice of rows is taken. A new one is
// a row of core/dtype.h (its bytes) and one here, or in blocks of ggml one of quant_ggml.cpp. No other code depends on
// the type to read values; products that read one without unpacking it are in kernels/simd.
#pragma once

#include <cstdint>

#include "kernels/weight.h"

namespace dml::kernels {

struct StoredFormat {
  DType dtype;
  /// Values that share a scale of Weight::scales or scale_codes; 0: none has one there; kRow: a row.
  std::int64_t scaled;
  /// Whether few rows are multiplied as they are stored (Loops::few_rows); else they are unpacked first.
  bool direct;
  /// w[row][col … col + n) in float32, on the calling thread.
  void (*unpack)(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out);

  static constexpr std::int64_t kRow = -1;
};

/// Of the types in which a Weight can be.
const StoredFormat& stored_format(DType dtype);

/// Whether values are codes, with scales of their own or in blocks, and not floating-point numbers.
inline bool is_quantised(DType dtype) { return dtype_row(dtype).values > 1 || stored_format(dtype).scaled != 0; }
/// Scales of a weight's own: one per row, or per block.
std::int64_t scale_count(const Weight& w);

}  // namespace dml::kernels
