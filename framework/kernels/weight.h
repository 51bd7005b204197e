// A view of a weight matrix in any stored type. kernels/stored_format.h says how its values are read; other code asks
// for float32 panels. The bytes belong to a mapped file, an arena or the parameter store.
#pragma once

#include <cstdint>

#include "core/bf16.h"
#include "core/dtype.h"
#include "core/matrix.h"

namespace dml::kernels {

/// mxfp4: two codes of E2M1 a byte, even index in the low nibble, and one power of two, E8M0, per 32.
constexpr std::int64_t kMxfp4Block = 32;

struct Weight {
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;  // (out, in), row-major
  const void* data = nullptr;  // rows × cols elements; nf4: two codes a byte, even index in the high nibble; q…: rows
                               // of whole blocks with their scales (quant_ggml.h)
  const float* scales = nullptr;  // nf4: one absmax per block of 64 in row-major order; int8: one per row
  // nf4 with double quantisation has no scales, but a code of each, and the mean that was taken off them followed by
  // the largest magnitude of every 256 (quant_nf4.h). The weight's first code is number `first_block` of those.
  const std::uint8_t* scale_codes = nullptr;
  const float* scale_blocks = nullptr;
  std::int64_t first_block = 0;
  bool bf16_values = false;   // nf4: code · scale is rounded to bf16
  std::int64_t row_step = 1;  // mxfp4: rows as stored from one row to the next; scale_codes has the powers of two

  explicit operator bool() const { return data != nullptr; }
  /// Rows [first, first + count). nf4 needs first · cols to be a multiple of 64.
  Weight slice(std::int64_t first, std::int64_t count) const;
};

inline Weight weight_of(ConstMat m) { return {DType::f32, m.rows, m.cols, m.data, nullptr}; }

/// Bytes of `rows` rows of a weight with their scales, which a product with them reads.
std::int64_t bytes_of_rows(const Weight& w, std::int64_t rows);

/// out[r][c] = w[row + r][col + c] for an (nrows × ncols) block; `out` is dense (ncols apart). Runs on the calling
/// thread.
void unpack(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols, float* out);
/// Whether all values are bf16, as stored or rounded.
bool is_bf16(const Weight& w);
/// Unpacks a block of NF4 whose values are exact in bfloat16. Only where ProductLoops has bf16_from_nf4.
void unpack_bf16(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols,
                 bf16* out);

}  // namespace dml::kernels
