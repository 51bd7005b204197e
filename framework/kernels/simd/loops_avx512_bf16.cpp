// Products of bf16 for AVX-512 with VDPBF16PS, large ones and those of few rows. All other loops are those of AVX-512.
#include <array>
#include <bit>
#include <type_traits>

#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <utility>

#define DML_VECTOR_BYTES 64

namespace dml::kernels {

namespace avx512 {
extern const Loops table;
}

namespace avx512_bf16 {
namespace {
// Each builds on the one before.
// clang-format off
#include "kernels/simd/vector.inl"
#include "kernels/simd/packing.inl"
#include "kernels/simd/vector16.inl"
#include "kernels/simd/nf4_bf16.inl"
#include "kernels/simd/packed_bf16.inl"
#include "kernels/simd/stored_rows_bf16.inl"
#include "kernels/simd/few_rows_bf16.inl"
// clang-format on

Loops make() {
  Loops loops = avx512::table;
  loops.few_rows = few_rows;
  loops.reads_as_stored = reads_as_stored;
  return loops;
}
}  // namespace

const Loops* table() {
  static const Loops loops = make();
  return &loops;
}

extern const ProductLoops products_bf16;
const ProductLoops products_bf16 = {
    .mr = kMr,
    .nr = kNr,
    .kc = 1024,
    .kr = 2,
    .half_words = 1,
    .pack_a = pack<kMr, float>,
    .pack_b = pack<kNr, float>,
    .pack_b_bf16 = pack<kNr, bf16>,
    .keeps_bf16 = true,
    .attention_rows = attention_rows_packed,
    .attention_keys = attention_keys_packed,
    .bf16_from_nf4 = bf16_from_nf4,
    .gemm = packed_gemm_bf16,
};

}  // namespace avx512_bf16
}  // namespace dml::kernels
#endif
