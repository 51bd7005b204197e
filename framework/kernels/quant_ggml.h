// The block formats of ggml (llama.cpp), in which GGUF files hold quantized matrices: a row is a sequence of blocks of
// 32 or 256 values, each with its own scales. Quantizing gives llama.cpp's bytes (its reference code, ggml-quants.c,
// without an importance matrix), so single-precision sums go in the order of the index and nothing is contracted;
// values of different blocks are computed side by side instead.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/weight.h"

namespace dml::kernels {

struct BlockFormat {
  DType dtype;
  std::int64_t scale_places[2];  // where its scales lie, each an f16 (one of them twice)
  /// x: blocks · values finite numbers; out: blocks · bytes. On the calling thread.
  void (*quantize)(const float* x, std::int64_t blocks, std::uint8_t* out);
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
