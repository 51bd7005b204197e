// The loops for AVX2 and FMA.
#include <bit>
#include <type_traits>
#include <utility>

#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define DML_VECTOR_BYTES 32

namespace dml::kernels::avx2 {
namespace {
// Each builds on the one before.
// clang-format off
#include "kernels/simd/vector.inl"
#include "kernels/simd/packing.inl"
#include "kernels/simd/products.inl"
#include "kernels/simd/bytes_avx2.inl"
#include "kernels/simd/storage.inl"
#include "kernels/simd/packed.inl"
#include "kernels/simd/stored_rows.inl"
#include "kernels/simd/stored_blocks.inl"
#include "kernels/simd/stored_super_blocks.inl"
#include "kernels/simd/stored_products.inl"
#include "kernels/simd/integer_blocks_avx2.inl"
#include "kernels/simd/integer_products_avx2.inl"
#include "kernels/simd/rows.inl"
#include "kernels/simd/softmax.inl"
#include "kernels/simd/elementwise.inl"
// clang-format on
}  // namespace
#include "kernels/simd/table.inl"

namespace {
Loops make_bf16() {
  Loops loops = table;
  loops.few_rows = few_rows_in_bf16;
  loops.reads_as_stored = reads_as_integers_or_stored;
  return loops;
}
}  // namespace

const Loops* table_bf16() {
  static const Loops loops = make_bf16();
  return &loops;
}
}  // namespace dml::kernels::avx2
#endif
