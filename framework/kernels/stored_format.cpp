#include "kernels/stored_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "kernels/nf4_values.h"
#include "kernels/quant_ggml.h"
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

// Where an element lies that takes a whole number of bytes.
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

void read_mxfp4(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  static constexpr float kValues[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  constexpr int kBias = 127;
  const auto* codes = static_cast<const std::uint8_t*>(w.data);
  const std::int64_t first = row * w.row_step * w.cols + col, end = first + n;
  for (std::int64_t i = first; i < end;) {
    const std::int64_t block = i / kMxfp4Block, last = std::min(end, (block + 1) * kMxfp4Block);
    const float scale = std::ldexp(1.f, w.scale_codes[block] - kBias);
    for (; i < last; ++i) *out++ = kValues[i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * scale;
  }
}

// The first and the last block may be needed in part.
void read_blocks(const Weight& w, std::int64_t row, std::int64_t col, std::int64_t n, float* out) {
  const BlockFormat& format = *block_format(w.storage);
  const std::int64_t first = row * w.cols + col;
  const auto* block = static_cast<const std::uint8_t*>(w.data) + first / format.values * format.bytes;
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

constexpr StoredFormat kFormats[] = {
    {Storage::f32, "f32", 1, 4, 0, true, read_f32},
    {Storage::bf16, "bf16", 1, 2, 0, true, read_bf16},
    {Storage::f16, "f16", 1, 2, 0, true, read_f16},
    {Storage::nf4, "nf4", 2, 1, kNf4Block, true, read_nf4},
    {Storage::int8, "int8", 1, 1, StoredFormat::kRow, true, read_int8},
    {Storage::mxfp4, "mxfp4", 2, 1, kMxfp4Block, false, read_mxfp4},
};

// By the number of the storage.
std::vector<StoredFormat> all_formats() {
  std::vector<StoredFormat> all(std::begin(kFormats), std::end(kFormats));
  for (const BlockFormat& f : block_formats())
    all.push_back({f.storage, f.name, f.values, f.bytes, 0, false, read_blocks});
  std::ranges::sort(all, {}, &StoredFormat::storage);
  for (std::size_t i = 0; i < all.size(); ++i) DML_CHECK(static_cast<std::size_t>(all[i].storage) == i);
  return all;
}

}  // namespace

const StoredFormat& stored_format(Storage storage) {
  static const std::vector<StoredFormat> all = all_formats();
  return all[static_cast<std::size_t>(storage)];
}

std::int64_t scale_count(const Weight& w) {
  const std::int64_t together = stored_format(w.storage).scaled;
  if (together == StoredFormat::kRow) return w.rows;
  return together > 0 ? (w.rows * w.cols + together - 1) / together : 0;
}

}  // namespace dml::kernels
