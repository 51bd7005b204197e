// Products of bf16 for AVX-512 with VDPBF16PS. All other loops are those of AVX-512.
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <utility>

#define DML_VECTOR_BYTES 64

namespace dml::kernels::avx512_bf16 {
namespace {
// Each builds on the one before.
// clang-format off
#include "kernels/simd/vector.inl"
#include "kernels/simd/packing.inl"
#include "kernels/simd/vector16.inl"
#include "kernels/simd/nf4_bf16.inl"
#include "kernels/simd/packed_bf16.inl"
// clang-format on
}  // namespace

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
    .attention = true,
    .bf16_from_nf4 = bf16_from_nf4,
    .gemm = packed_gemm_bf16,
};

}  // namespace dml::kernels::avx512_bf16
#endif
