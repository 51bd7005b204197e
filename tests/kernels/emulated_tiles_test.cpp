// The register block for AMX on tiles in memory, so that its packing and its products are checked on machines without
// AMX.
#include <gtest/gtest.h>

#include "core/bf16.h"
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"
#include "values.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

// For this part of the file alone: nothing inline that other files share may need these instructions.
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi2,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")
#define DML_VECTOR_BYTES 64

namespace dml::kernels::emulated {
namespace {

struct Tile {
  std::array<std::array<char, 64>, 16> row;
};
Tile tiles[8];

// As the instructions of the same names, for tiles of 16 full rows.
void load_tile(int t, const void* from, std::int64_t stride) {
  for (std::size_t r = 0; r < 16; ++r)
    std::memcpy(&tiles[t].row[r], static_cast<const char*>(from) + static_cast<std::int64_t>(r) * stride, 64);
}
void store_tile(int t, void* to, std::int64_t stride) {
  for (std::size_t r = 0; r < 16; ++r)
    std::memcpy(static_cast<char*>(to) + static_cast<std::int64_t>(r) * stride, &tiles[t].row[r], 64);
}
void multiply_tiles(int sum, int a, int b) {
  for (std::size_t m = 0; m < 16; ++m)
    for (std::size_t n = 0; n < 16; ++n) {
      float total;
      std::memcpy(&total, &tiles[sum].row[m][4 * n], 4);
      for (std::size_t k = 0; k < 16; ++k)
        for (std::size_t half = 0; half < 4; half += 2) {
          bf16 x, y;
          std::memcpy(&x, &tiles[a].row[m][4 * k + half], 2);
          std::memcpy(&y, &tiles[b].row[k][4 * n + half], 2);
          total += to_float(x) * to_float(y);
        }
      std::memcpy(&tiles[sum].row[m][4 * n], &total, 4);
    }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadd(t, from, stride) load_tile(t, from, stride)
#define _tile_stored(t, to, stride) store_tile(t, to, stride)
#define _tile_zero(t) tiles[t] = {}
#define _tile_dpbf16ps(sum, a, b) multiply_tiles(sum, a, b)
#define _tile_loadconfig(shapes) (void)(shapes)
#define _tile_release() (void)0

// clang-format off
#include "kernels/simd/vector.inl"
#include "kernels/simd/packing.inl"
#include "kernels/simd/vector16.inl"
#include "kernels/simd/packed_amx.inl"
// clang-format on

// a (m, depth) · b (n, depth)ᵀ in so many parts; a or b given transposed.
template <int Parts>
void expect_exact(bool a_transposed, bool b_transposed, bool b_bf16) {
  constexpr std::int64_t m = 45, n = 40, depth = 70, deep = 96;
  auto a = values(m * depth, 1), b = values(n * depth, 2), c = values(m * n, 3);
  const auto before = c;
  std::vector<bf16> halves(b.size());
  for (std::size_t i = 0; i < b.size(); ++i) {
    halves[i] = to_bf16(b[i]);
    if (b_bf16) b[i] = to_float(halves[i]);
  }
  auto at = [](std::int64_t rows, bool transposed, std::int64_t i, std::int64_t d) {
    return static_cast<std::size_t>(transposed ? d * rows + i : i * depth + d);
  };
  std::vector<float> packed_a(2 * kMr * deep * Parts / 2), packed_b(2 * kNr * deep * (b_bf16 ? 1 : Parts) / 2);
  for (std::int64_t first = 0; first < m; first += kMr)
    pack_a<Parts>(a_transposed, std::min(kMr, m - first), depth, &a[at(m, a_transposed, first, 0)],
                  a_transposed ? m : depth, &packed_a[static_cast<std::size_t>(first * deep * Parts / 2)]);
  for (std::int64_t first = 0; first < n; first += kNr) {
    float* to = &packed_b[static_cast<std::size_t>(first * deep * (b_bf16 ? 1 : Parts) / 2)];
    const std::size_t from = at(n, b_transposed, first, 0);
    if (b_bf16)
      pack_b<Parts>(b_transposed, std::min(kNr, n - first), depth, &halves[from], b_transposed ? n : depth, to);
    else pack_b<Parts>(b_transposed, std::min(kNr, n - first), depth, &b[from], b_transposed ? n : depth, to);
  }
  packed_gemm<Parts>(m, n, deep, b_bf16 ? deep : 0, packed_a.data(), packed_b.data(), c.data(), n, true, {});
  auto value = [](float x) { return Parts == 1 ? to_float(to_bf16(x)) : x; };
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const auto element = static_cast<std::size_t>(i * n + j);
      double sum = before[element], size = std::fabs(sum);
      for (std::int64_t d = 0; d < depth; ++d) {
        const double term =
            static_cast<double>(value(a[at(m, a_transposed, i, d)])) * value(b[at(n, b_transposed, j, d)]);
        sum += term, size += std::fabs(term);
      }
      ASSERT_NEAR(c[element], sum, 1e-6 * size) << i << " " << j;
    }
}

TEST(EmulatedTiles, MultiplyAsExactlyAsFloat32InThreePartsAndRoundedFactorsInOne) {
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this machine lacks AVX512_BF16";
  for (bool a_transposed : {false, true})
    for (bool b_transposed : {false, true})
      for (bool b_bf16 : {false, true}) {
        expect_exact<3>(a_transposed, b_transposed, b_bf16);
        expect_exact<1>(a_transposed, b_transposed, b_bf16);
      }
}

}  // namespace
}  // namespace dml::kernels::emulated
#pragma GCC pop_options
#endif
