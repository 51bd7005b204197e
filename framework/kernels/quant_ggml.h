// The block formats of ggml (llama.cpp), in which GGUF files hold quantised matrices: a row is a sequence of blocks of
// 32 or 256 values, each with its own scales. Quantising gives llama.cpp's bytes (its reference code, ggml-quants.c,
// without an importance matrix), so single-precision sums go in the order of the index and nothing is contracted;
// values of different blocks are computed side by side instead.
//
//   q8_0  d·q                      34 bytes: f16 d, 32 × i8
//   q4_0  d·(q − 8)                18: f16 d, 16 × two codes; value j in the low, j + 16 in the high nibbles
//   q4_1  d·q + m                  20: f16 d, f16 m, codes
//   q5_0  d·(q − 16)               22: f16 d, u32 fifth bits, codes
//   q5_1  d·q + m                  24: f16 d, f16 m, u32 fifth bits, codes
//   q4_k  d·sc·q − dmin·m          144: f16 d, f16 dmin, 8 scales and 8 mins of 6 bits, codes; 8 groups of 32
//   q5_k  the same                 176: …, 32 bytes of fifth bits, codes
//   iq4_nl  d·v[q]                 18: f16 d, codes as q4_0's; v: 16 values, further apart at the ends
//   q6_k  d·sc·(q − 32)            210: low nibbles, upper two bits, 16 × i8 sc, f16 d; 16 groups of 16
#pragma once

#include <cstdint>
#include <span>

#include "kernels/weight.h"

namespace dml::kernels {

struct BlockFormat {
  DType dtype;
  std::int64_t scale_places[2];  // where its scales lie, each an f16 (one of them twice)
  /// x: blocks · values finite numbers; out: blocks · bytes. On the calling thread.
  void (*quantise)(const float* x, std::int64_t blocks, std::uint8_t* out);
  void (*unpack)(const std::uint8_t* in, std::int64_t blocks, float* out);

  std::int64_t values() const { return dtype_row(dtype).values; }
  std::int64_t bytes() const { return dtype_row(dtype).bytes; }
};

std::span<const BlockFormat> block_formats();
/// Whether a block's scales are finite: then all its values are.
bool block_is_finite(const BlockFormat& format, const void* block);
/// The format of a block type of ggml; null for other types.
const BlockFormat* block_format(DType dtype);

}  // namespace dml::kernels
