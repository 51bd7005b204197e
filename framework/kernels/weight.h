// A non-owning view of a weight matrix of any stored dtype. Its values are read by kernels/stored_format.h; other code
// reads float32 panels. The memory belongs to a mapped file, an arena or the parameter store.
#pragma once

#include <cstdint>

#include "core/bf16.h"
#include "core/dtype.h"
#include "core/matrix.h"

namespace dml::kernels {

/// mxfp4: two E2M1 codes per byte, the even index in the low nibble, and one power of two (E8M0) per 32 values.
constexpr std::int64_t kMxfp4Block = 32;
/// Of its codes (E2M1), in units of the block's scale.
inline constexpr float kMxfp4Values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
/// What the codes of ggml's iq4_nl and iq4_xs stand for, in units of the scale: further apart at the ends.
inline constexpr signed char kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

struct Weight {
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;  // (out, in), row-major
  const void* data = nullptr;  // rows × cols elements; nf4: two codes per byte, the even index in the high nibble; q…:
                               // rows of whole blocks with their scales (quant_ggml.h)
  const float* scales = nullptr;  // nf4: one absmax per block of 64 in row-major order; int8: one per row
  // nf4 with double quantization: instead of scales, their codes, and scale_blocks: the mean that was subtracted,
  // followed by the largest magnitude of every 256 scales (quant_nf4.h). The weight begins at scale number
  // `first_block`.
  const std::uint8_t* scale_codes = nullptr;
  const float* scale_blocks = nullptr;
  std::int64_t first_block = 0;
  bool bf16_values = false;   // nf4: values (code · scale) are rounded to bf16
  std::int64_t row_step = 1;  // mxfp4: distance of consecutive rows in stored rows; scale_codes has the powers of two

  explicit operator bool() const { return data != nullptr; }
  /// Rows [first, first + count). nf4 needs first · cols to be a multiple of 64.
  Weight slice(std::int64_t first, std::int64_t count) const;
};

inline Weight weight_of(ConstMat m) { return {DType::f32, m.rows, m.cols, m.data, nullptr}; }

/// Bytes that a product with `rows` rows of a weight reads, including scales.
std::int64_t bytes_of_rows(const Weight& w, std::int64_t rows);

/// out[r][c] = w[row + r][col + c] for an (nrows × ncols) block; `out` is dense (ncols apart). Runs on the calling
/// thread.
void unpack(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols, float* out);
/// Whether all values are exact in bfloat16.
bool is_bf16(const Weight& w);
/// Unpacks a block of an NF4 weight with bf16_values. Requires ProductLoops::bf16_from_nf4.
void unpack_bf16(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols,
                 bf16* out);

}  // namespace dml::kernels
