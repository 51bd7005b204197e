// The register block (micro-kernel) of the large products (packed.h) and the packing of its panels, by instruction set
// and precision. Names are those of BLIS: a panel of the first factor has mr rows, one of the second nr, and kc is the
// depth of a step.
#pragma once

#include <cstdint>

#include "core/bf16.h"
#include "kernels/attention_tasks.h"

namespace dml::kernels {

// Bytes to prefetch during other work: `rows` runs of `width` bytes, `stride` apart.
struct PrefetchRange {
  const char* data = nullptr;
  std::int64_t stride = 0, width = 0, rows = 0;
};

struct ProductLoops {
  std::int64_t mr, nr;
  std::int64_t kc;          // the largest depth of a step
  std::int64_t kr;          // panels are padded with zeros to a multiple of this depth, and may be split there
  std::int64_t half_words;  // 16-bit words per packed value
  /// A panel of mr or nr rows: of from[r · ld + k], or from[k · ld + r] when transposed, for r < count and k < depth;
  /// the other rows become zero. The layout is private to this row.
  void (*pack_a)(bool transposed, std::int64_t count, std::int64_t depth, const float* from, std::int64_t ld,
                 float* to);
  void (*pack_b)(bool transposed, std::int64_t count, std::int64_t depth, const float* from, std::int64_t ld,
                 float* to);
  void (*pack_b_bf16)(bool transposed, std::int64_t count, std::int64_t depth, const bf16* from, std::int64_t ld,
                      float* to);
  double packing = 10;  // multiply-adds in the time of packing a value: an estimate, by which threads divide products
  bool keeps_bf16;      // pack_b_bf16 keeps values exactly
  /// Attention with these products, for documents of at least kIsaAttentionMinRows; null if the loops of simd/loops.h
  /// are used.
  void (*attention_rows)(const AttentionRows& task) = nullptr;
  void (*attention_keys)(const AttentionKeys& task) = nullptr;
  /// Values [first, first + n) of a stream of 4-bit codes with one scale per 64, as bf16; null unless keeps_bf16.
  void (*bf16_from_nf4)(const void* from, const float* scales, std::int64_t first, std::int64_t n, bf16* to);
  /// c (m,n) = or += the product of consecutive panels. The first `bf16_depth` steps of b were packed as bf16. Every
  /// element is one fixed chain of additions over the depth, whatever the other sizes.
  void (*gemm)(std::int64_t m, std::int64_t n, std::int64_t depth, std::int64_t bf16_depth, const float* a,
               const float* b, float* c, std::int64_t ldc, bool add, PrefetchRange ahead);
};

/// The products of the instruction set and precision in use (kernels/processor.h).
const ProductLoops& product_loops();

}  // namespace dml::kernels
