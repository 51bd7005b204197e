// The values of an NF4 weight, with single or double quantization of its scales.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {

/// Decodes values [first, first + n) in row-major order to T (float or bf16), on the calling thread. bf16 requires
/// ProductLoops::bf16_from_nf4.
template <class T>
void nf4_values(const Weight& w, std::int64_t first, std::int64_t n, T* out) {
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

}  // namespace dml::kernels
