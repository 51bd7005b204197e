#include "kernels/weight.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/error.h"
#include "kernels/quant_ggml.h"
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

// Values [first, first + n) of a matrix in blocks; the first and the last block may be needed in part.
void unpack_blocks(const BlockFormat& format, const void* data, std::int64_t first, std::int64_t n, float* out) {
  const auto* block = static_cast<const std::uint8_t*>(data) + first / format.values * format.bytes;
  float values[256];
  for (std::int64_t skipped = first % format.values; n > 0; skipped = 0) {
    const std::int64_t whole = skipped == 0 ? n / format.values : 0;
    std::int64_t some = whole * format.values;
    if (whole > 0) {
      format.unpack(block, whole, out);
      block += whole * format.bytes;
    } else {
      format.unpack(block, 1, values);
      some = std::min(n, format.values - skipped);
      std::copy_n(values + skipped, some, out);
      block += format.bytes;
    }
    n -= some, out += some;
  }
}

// NF4 values [first, first + n) of a weight.
template <class T>
void unpack_nf4(const Weight& w, std::int64_t first, std::int64_t n, T* out) {
  auto values = [&](const void* codes, const float* scales, std::int64_t from, std::int64_t count) {
    if constexpr (std::is_same_v<T, bf16>) product_loops().bf16_from_nf4(codes, scales, from, count, out);
    else loops().from_nf4(codes, scales, w.bf16_values, from, count, out);
  };
  if (w.scales) return values(w.data, w.scales, first, n);
  constexpr std::int64_t kBlocks = 32;  // at a time
  float scales[kBlocks];
  while (n > 0) {
    const std::int64_t block = first / kNf4Block, skipped = first % kNf4Block;
    const std::int64_t some = std::min(n, kBlocks * kNf4Block - skipped);
    expand_scales(w, block, (skipped + some + kNf4Block - 1) / kNf4Block, scales);
    values(static_cast<const std::uint8_t*>(w.data) + block * (kNf4Block / 2), scales, skipped, some);
    first += some, n -= some, out += some;
  }
}

// Values [first, first + n) of the rows as they are stored.
void unpack_mxfp4(const Weight& w, std::int64_t first, std::int64_t n, float* out) {
  static constexpr float kValues[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  constexpr int kBias = 127;
  const auto* codes = static_cast<const std::uint8_t*>(w.data);
  for (std::int64_t i = first, end = first + n; i < end;) {
    const std::int64_t block = i / kMxfp4Block, last = std::min(end, (block + 1) * kMxfp4Block);
    const float scale = std::ldexp(1.f, w.scale_codes[block] - kBias);
    for (; i < last; ++i) *out++ = kValues[i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * scale;
  }
}

}  // namespace

std::int64_t storage_bytes(Storage storage, std::int64_t elements) {
  switch (storage) {
    case Storage::f32:
      return elements * 4;
    case Storage::bf16:
    case Storage::f16:
      return elements * 2;
    case Storage::int8:
      return elements;
    case Storage::nf4:
    case Storage::mxfp4:
      return (elements + 1) / 2;
    default:
      break;
  }
  const BlockFormat* format = block_format(storage);
  DML_CHECK(format != nullptr);
  return elements / format->values * format->bytes;
}

Weight Weight::slice(std::int64_t first, std::int64_t count) const {
  DML_CHECK(first >= 0 && count >= 0 && first + count <= rows);
  DML_CHECK(storage != Storage::nf4 || first * cols % kNf4Block == 0);
  Weight part = *this;
  part.rows = count;
  if (storage == Storage::mxfp4) {
    part.data = static_cast<const char*>(data) + first * row_step * cols / 2;
    part.scale_codes = scale_codes + first * row_step * cols / kMxfp4Block;
    return part;
  }
  part.data = static_cast<const char*>(data) + storage_bytes(storage, first * cols);
  if (storage == Storage::nf4 && scales) part.scales = scales + first * cols / kNf4Block;
  if (scale_codes) {
    part.first_block = first_block + first * cols / kNf4Block;
    part.scale_codes = scale_codes + first * cols / kNf4Block;
  }
  if (storage == Storage::int8) part.scales = scales + first;
  return part;
}

void unpack(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols, float* out) {
  const Loops& loop = loops();
  const BlockFormat* blocks = block_format(w.storage);
  for (std::int64_t r = row; r < row + nrows; ++r, out += ncols) {
    std::int64_t first = r * w.cols + col;
    const char* at =
        static_cast<const char*>(w.data) +
        (blocks || w.storage == Storage::nf4 || w.storage == Storage::mxfp4 ? 0 : storage_bytes(w.storage, first));
    switch (w.storage) {
      case Storage::f32:
        __builtin_memcpy(out, at, static_cast<std::size_t>(ncols) * sizeof(float));
        break;
      case Storage::bf16:
        loop.from_bf16(at, ncols, out);
        break;
      case Storage::f16:
        loop.from_f16(at, ncols, out);
        break;
      case Storage::int8:
        loop.from_int8(at, ncols, w.scales[r], out);
        break;
      case Storage::nf4:
        unpack_nf4(w, first, ncols, out);
        break;
      case Storage::mxfp4:
        unpack_mxfp4(w, r * w.row_step * w.cols + col, ncols, out);
        break;
      default:
        unpack_blocks(*blocks, w.data, first, ncols, out);
        break;
    }
  }
}

bool is_bf16(const Weight& w) { return w.storage == Storage::bf16 || (w.storage == Storage::nf4 && w.bf16_values); }

void unpack_bf16(const Weight& w, std::int64_t row, std::int64_t nrows, std::int64_t col, std::int64_t ncols,
                 bf16* out) {
  DML_CHECK(w.storage == Storage::nf4 && w.bf16_values);
  for (std::int64_t r = row; r < row + nrows; ++r, out += ncols) unpack_nf4(w, r * w.cols + col, ncols, out);
}

}  // namespace dml::kernels
