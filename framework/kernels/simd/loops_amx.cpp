// The loops for AMX: products on its tiles, the others from AVX-512.
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <limits>

#define DML_VECTOR_BYTES 64

namespace dml::kernels {

namespace avx512 {
extern const Loops table;
}

namespace amx {
namespace {
// Each builds on the one before.
// clang-format off
#include "kernels/simd/vector.inl"
#include "kernels/simd/packing.inl"
#include "kernels/simd/vector16.inl"
#include "kernels/simd/packed_amx.inl"
#include "kernels/simd/nf4_bf16.inl"
#include "kernels/simd/nf4_amx.inl"
#include "kernels/simd/stored_tiles_amx.inl"
#include "kernels/simd/int8_amx.inl"
#include "kernels/simd/bf16_rows_amx.inl"
#include "kernels/simd/integer_blocks_amx.inl"
#include "kernels/simd/integer_products_amx.inl"
#include "kernels/simd/attention_amx.inl"
#include "kernels/simd/attention_rows_amx.inl"
#include "kernels/simd/attention_keys_amx.inl"
// clang-format on

constexpr std::int64_t kMinOnTiles = 3;  // below this, the plain loops are limited by memory bandwidth

std::int64_t min_batched_rows(const Weight& w) {
  const bool tiles = (w.dtype == DType::nf4 && w.bf16_values) || (w.dtype == DType::int8 && w.cols <= kMaxInt8Cols);
  return tiles ? kMinOnTiles : 1;
}

void few_rows(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x, std::int64_t ldx,
              float* c, std::int64_t ldc, bool add, float* room) {
  auto product = [&](auto of_rows) {
    if (m <= 4) of_rows.template operator()<4>();
    else of_rows.template operator()<8>();
  };
  if (m >= kMinOnTiles && w.dtype == DType::nf4 && w.bf16_values) {
    Nf4Row row{static_cast<const unsigned char*>(w.data), w.scales, w.cols};
    row.move(first);
    product([&]<int M>() { few_rows_of_nf4<M>(row, count, m, x, ldx, c, ldc, add, room); });
  } else if (m >= kMinOnTiles && w.dtype == DType::int8 && w.cols <= kMaxInt8Cols) {
    auto* data = static_cast<const char*>(w.data) + first * w.cols;
    product([&]<int M>() { few_rows_of_int8<M>(data, w.scales + first, w.cols, count, m, x, ldx, c, ldc, add, room); });
  } else {
    avx512::table.few_rows(w, first, count, m, x, ldx, c, ldc, add, room);
  }
}

bool reads_as_integers_or_stored(const Weight& w) { return integer_product(w) || avx512::table.reads_as_stored(w); }

void few_rows_in_bf16(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                      std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room) {
  if (w.dtype == DType::bf16) {
    auto* data = static_cast<const char*>(w.data) + 2 * first * w.cols;
    auto product = [&]<int M>() { few_rows_of_bf16<M>(data, w.cols, count, m, x, ldx, c, ldc, add, room); };
    if (m == 1) product.template operator()<1>();
    else if (m <= 4) product.template operator()<4>();
    else product.template operator()<8>();
    return;
  }
  const FewRows product = integer_product(w);
  (product ? product : few_rows)(w, first, count, m, x, ldx, c, ldc, add, room);
}

// Linux provides tiles on request, for all threads of the process.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
#else
  return false;
#endif
}

Loops make() {
  Loops loops = avx512::table;
  loops.room = 12;
  loops.few_rows = few_rows;
  loops.min_batched_rows = min_batched_rows;
  return loops;
}
Loops make_bf16() {
  Loops loops = make();
  loops.few_rows = few_rows_in_bf16;
  loops.reads_as_stored = reads_as_integers_or_stored;
  return loops;
}

}  // namespace

const Loops* table() {
  static const Loops loops = make();
  static const bool allowed = may_use_tiles();
  return allowed ? &loops : nullptr;
}
const Loops* table_bf16() {
  static const Loops loops = make_bf16();
  return &loops;
}

namespace {
template <int Parts>
constexpr ProductLoops products_in = {
    .mr = kMr,
    .nr = kNr,
    .kc = Parts == 3 ? 256 : 768,
    .kr = kBlockDepth,
    .half_words = Parts,
    .pack_a = pack_a<Parts>,
    .pack_b = pack_b<Parts>,
    .pack_b_bf16 = pack_b<Parts, bf16>,
    .packing = Parts == 3 ? 30 : 60,
    .keeps_bf16 = true,
    .attention_rows = attention_rows<Parts>,
    .attention_keys = attention_keys<Parts>,
    .bf16_from_nf4 = bf16_from_nf4,
    .gemm = packed_gemm<Parts>,
};
}  // namespace

extern const ProductLoops products, products_bf16;
const ProductLoops products = products_in<3>, products_bf16 = products_in<1>;

}  // namespace amx
}  // namespace dml::kernels
#endif
