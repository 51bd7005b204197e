#include "kernels/stored_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "kernels/nf4_values.h"
#include "kernels/quant_ggml.h"
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

// The address of an element of kBytes bytes.
template <std::int64_t kBytes>
const char* element(const Weight& w, std::int64_t row, std::int64_t col) {
  return static_cast<const char*>(w.data) + (row * w.cols + col) * kBytes;
}

void read_f32(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  std::memcpy(out, element<4>(w, row, col), static_cast<std::size_t>(n) * sizeof(float));
}

void read_bf16(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  loops().from_bf16(element<2>(w, row, col), n, out);
}

void read_f16(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  loops().from_f16(element<2>(w, row, col), n, out);
}

void read_int8(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  loops().from_int8(element<1>(w, row, col), n, w.scales[row], out);
}

void read_nf4(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  nf4_values(w, row * w.cols + col, n, out);
}

// Values of mxfp4 one by one; blocks need not begin where rows do.
void read_mxfp4_values(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  constexpr int kBias = 127;
  const auto* codes = static_cast<const std::uint8_t*>(w.data);
  const std::int64_t first = row * w.row_step * w.cols + col, end = first + n;
  for (std::int64_t i = first; i < end;) {
    const std::int64_t block = i / kMxfp4Block, last = std::min(end, (block + 1) * kMxfp4Block);
    const float scale = std::ldexp(1.f, w.scale_codes[block] - kBias);
    for (; i < last; ++i) *out++ = kMxfp4Values[i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * scale;
  }
}

void read_whole_blocks(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  if (loops().from_blocks) return loops().from_blocks(w, row, col, n, out);
  if (w.dtype == DType::mxfp4) return read_mxfp4_values(w, row, col, n, out);
  const BlockFormat& format = *block_format(w.dtype);
  const std::int64_t block = (row * w.cols + col) / format.values();
  format.unpack(static_cast<const std::uint8_t*>(w.data) + block * format.bytes(), n / format.values(), out);
}

// Blocks of `Values`; the first and the last one may be partial.
template <std::int64_t Values>
void read_blocks(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  while (n > 0) {
    const std::int64_t skipped = col % Values;
    std::int64_t some = n / Values * Values;
    if (skipped > 0 || some == 0) {
      float block[Values];
      read_whole_blocks(w, row, col - skipped, Values, block);
      some = std::min(n, Values - skipped);
      std::copy_n(block + skipped, some, out);
    } else {
      read_whole_blocks(w, row, col, some, out);
    }
    col += some, n -= some, out += some;
  }
}

void read_mxfp4(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  (w.cols % kMxfp4Block == 0 ? read_blocks<kMxfp4Block> : read_mxfp4_values)(w, row, col, n, out);
}

constexpr StoredFormat kFormats[] = {
    {DType::f32, 0, read_f32},
    {DType::bf16, 0, read_bf16},
    {DType::f16, 0, read_f16},
    {DType::nf4, kNf4Block, read_nf4},
    {DType::int8, StoredFormat::kRow, read_int8},
    {DType::mxfp4, kMxfp4Block, read_mxfp4},
};

using AllFormats = std::array<StoredFormat, std::size(kDTypes)>;

// The formats, indexed by DType.
AllFormats all_formats() {
  AllFormats all{};
  for (const StoredFormat& f : kFormats) all[static_cast<std::size_t>(f.dtype)] = f;
  for (const BlockFormat& f : block_formats())
    all[static_cast<std::size_t>(f.dtype)] = {f.dtype, 0, f.values() == 32 ? read_blocks<32> : read_blocks<256>};
  return all;
}

}  // namespace

const StoredFormat& stored_format(DType dtype) {
  static const AllFormats all = all_formats();
  const StoredFormat& format = all[static_cast<std::size_t>(dtype)];
  DML_CHECK(format.unpack, "no weight is stored as {}", dtype_row(dtype).name);
  return format;
}

std::int64_t scale_count(const Weight& w) {
  const std::int64_t together = stored_format(w.dtype).scaled;
  if (together == StoredFormat::kRow) return w.rows;
  return together > 0 ? (w.rows * w.cols + together - 1) / together : 0;
}

}  // namespace dml::kernels
