// The forms in which weights are stored, a row each: how many bytes, how a row is unpacked, how a slice of rows is
// taken. A new form is a name in Storage (kernels/weight.h) and a row here; one in blocks of ggml is a row of
// quant_ggml.cpp. No other code depends on the form to read values; products that read one without unpacking it
// are in kernels/simd.
#pragma once

#include <cstdint>

#include "kernels/weight.h"

namespace dml::kernels {

struct StoredFormat {
  Storage storage;
  const char* name;
  std::int64_t values, bytes;  // of a block; one value and its bytes where there are no blocks
  /// Values that share a scale of Weight::scales or scale_codes; 0: none has one there; kRow: a row.
  std::int64_t scaled;
  /// Whether few rows are multiplied as they are stored (Loops::few_rows); else they are unpacked first.
  bool direct;
  /// w[row][col … col + n) in float32, on the calling thread.
  void (*unpack)(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out);

  static constexpr std::int64_t kRow = -1;
};

const StoredFormat& stored_format(Storage storage);

/// Whether values are codes, with scales of their own or in blocks, and not floating-point numbers.
inline bool is_quantised(Storage storage) {
  const StoredFormat& format = stored_format(storage);
  return format.values > 1 || format.scaled != 0;
}
/// Scales of a weight's own: one per row, or per block.
std::int64_t scale_count(const Weight& w);

}  // namespace dml::kernels
