// Large products in the precision of bf16: factors rounded, sums in float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/arena.h"
#include "core/bf16.h"
#include "core/parallel.h"
#include "kernels/gemm.h"
#include "kernels/lora.h"
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"
#include "kernels/stored_format.h"
#include "stored.h"
#include "values.h"

namespace dml::kernels {
namespace {

// Every instruction set this machine has, with products in bf16.
class InBf16 : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!use_isa(GetParam())) GTEST_SKIP() << "this machine lacks it";
    use_precision(DType::bf16);
  }
  void TearDown() override {
    use_precision(DType::f32);
    use_isa(best_isa());
  }
};
INSTANTIATE_TEST_SUITE_P(
    , InBf16, testing::Values(Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx),
    [](const auto& given) {
      return std::string(std::array{"portable", "avx2", "avx512", "avx512_bf16", "amx"}[static_cast<int>(given.param)]);
    });

double rounded(float x) { return to_float(to_bf16(x)); }

// Expects the sums over d of a(i, d) · b(j, d), both rounded, within a part of the terms' sizes and `more`.
template <class A, class B>
void expect_product(const std::vector<float>& got, std::int64_t m, std::int64_t n, std::int64_t depth, A a, B b,
                    double more = 0) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t d = 0; d < depth; ++d) {
        const double term = rounded(a(i, d)) * rounded(b(j, d));
        sum += term, size += std::fabs(term);
      }
      ASSERT_NEAR(got[static_cast<std::size_t>(i * n + j)], sum, 2e-6 * size + more) << i << " " << j;
    }
}

TEST_P(InBf16, ProductsAreThoseOfRoundedFactors) {
  for (auto [t, n, k] : {std::array<std::int64_t, 3>{9, 1, 1}, {15, 33, 35}, {45, 70, 900}, {31, 64, 1027}}) {
    auto x = values(static_cast<std::size_t>(t * k), 1), w = values(static_cast<std::size_t>(n * k), 2),
         dy = values(static_cast<std::size_t>(t * n), 3);
    std::vector<float> y(dy.size()), dx(x.size()), dw(w.size());
    const Weight weight = weight_of(mat(w, n, k));
    gemm_nt(mat(x, t, k), weight, mat(y, t, n), Write::set);
    gemm_nn(mat(dy, t, n), weight, mat(dx, t, k), Write::set);
    gemm_tn(mat(dy, t, n), mat(x, t, k), mat(dw, n, k), Write::set);
    auto at = [](const std::vector<float>& v, std::int64_t cols, bool transposed) {
      return [&v, cols, transposed](std::int64_t i, std::int64_t d) {
        return v[static_cast<std::size_t>(transposed ? d * cols + i : i * cols + d)];
      };
    };
    expect_product(y, t, n, k, at(x, k, false), at(w, k, false));
    expect_product(dx, t, k, n, at(dy, n, false), at(w, k, true));
    expect_product(dw, n, k, t, at(dy, n, true), at(x, k, true));
  }
}

// The products of an adapter: x · aᵀ, then the gradients of dy, all with scale 0.3.
struct Adapter {
  std::int64_t t, n, k, r;
  std::vector<float> x = random(t * k, 1), a = random(r * k, 2), b = random(n * r, 3), dy = random(t * n, 4);
  std::vector<float> down = random(t * r, 5), ddown = random(t * r, 6), db = random(n * r, 7), dx = random(t * k, 8),
                     da = random(r * k, 9);

  static std::vector<float> random(std::int64_t size, std::uint64_t seed) {
    return values(static_cast<std::size_t>(size), seed);
  }
  void run() {
    Arena scratch(16 << 20);
    lora_down(AdapterDown{mat(x, t, k), mat(a, r, k), mat(down, t, r)}, scratch, RowMethod::packed);
    lora_up_backward(
        AdapterUpGradient{mat(dy, t, n), mat(down, t, r), mat(b, n, r), 0.3f, mat(ddown, t, r), mat(db, n, r)},
        scratch);
    lora_down_backward(AdapterDownGradient{mat(ddown, t, r), mat(x, t, k), mat(a, r, k), mat(dx, t, k), mat(da, r, k)},
                       scratch);
  }
};

TEST_P(InBf16, ProductsOfAdaptersAreThoseOfRoundedFactors) {
  for (auto [t, n, k, r] : {std::array<std::int64_t, 4>{1, 5, 3, 1},
                            {37, 70, 300, 4},
                            {30, 600, 65, 16},
                            {65, 33, 1100, 17},
                            {9, 40, 90, 64}}) {
    Adapter c{t, n, k, r};
    const Adapter before = c;
    c.run();
    auto at = [](const std::vector<float>& v, std::int64_t cols, bool transposed, float scale = 1) {
      return [&v, cols, transposed, scale](std::int64_t i, std::int64_t d) {
        return scale * v[static_cast<std::size_t>(transposed ? d * cols + i : i * cols + d)];
      };
    };
    // What was added to the values before, divided by the scale.
    auto added = [](const std::vector<float>& now, const std::vector<float>& then, float scale) {
      std::vector<float> out(now.size());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = (now[i] - then[i]) / scale;
      return out;
    };
    expect_product(c.down, t, r, k, at(c.x, k, false), at(c.a, k, false));
    expect_product(c.ddown, t, r, n, at(c.dy, n, false), at(c.b, r, true, 0.3f));
    const double one = 1e-6 * 4;  // of the values that were there before
    expect_product(added(c.db, before.db, 0.3f), n, r, t, at(c.dy, n, true), at(c.down, r, true), one / 0.3);
    expect_product(added(c.dx, before.dx, 1), t, k, r, at(c.ddown, r, false), at(c.a, k, true), one);
    expect_product(added(c.da, before.da, 1), r, k, t, at(c.ddown, r, true), at(c.x, k, true), one);
  }
}

TEST_P(InBf16, BitsOfAdaptersDoNotDependOnThreads) {
  const int threads_before = threads();
  Adapter one{300, 333, 700, 16};
  set_threads(1);
  const Adapter before = one;
  one.run();
  for (int count : {2, 3, 7}) {
    set_threads(count);
    Adapter many = before;
    many.run();
    EXPECT_EQ(one.down, many.down) << count;
    EXPECT_EQ(one.ddown, many.ddown) << count;
    EXPECT_EQ(one.db, many.db) << count;
    EXPECT_EQ(one.dx, many.dx) << count;
    EXPECT_EQ(one.da, many.da) << count;
  }
  set_threads(threads_before);
}

TEST_P(InBf16, AWeightStoredInBf16OrNf4HasTheBitsOfItsFloat32Values) {
  constexpr std::int64_t t = 70, n = 130, k = 2112;
  auto x = values(t * k, 1), w = values(n * k, 2), dy = values(t * n, 3);
  std::vector<bf16> stored(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) stored[i] = to_bf16(w[i]), w[i] = to_float(stored[i]);
  std::vector<std::uint8_t> codes(w.size() / 2);
  std::vector<float> scales(w.size() / 64), unpacked(w.size());
  quantize_nf4(w, codes, scales);
  Weight nf4{DType::nf4, n, k, codes.data(), scales.data()};
  nf4.bf16_values = true;
  unpack(nf4, 0, n, 0, k, unpacked.data());
  for (auto [packed, plain] : {std::pair{Weight{DType::bf16, n, k, stored.data()}, weight_of(mat(w, n, k))},
                               std::pair{nf4, weight_of(mat(unpacked, n, k))}}) {
    std::vector<float> y1(dy.size()), y2(dy.size()), dx1(x.size()), dx2(x.size());
    gemm_nt(mat(x, t, k), packed, mat(y1, t, n), Write::set);
    gemm_nt(mat(x, t, k), plain, mat(y2, t, n), Write::set);
    gemm_nn(mat(dy, t, n), packed, mat(dx1, t, k), Write::set);
    gemm_nn(mat(dy, t, n), plain, mat(dx2, t, k), Write::set);
    EXPECT_EQ(y1, y2);
    EXPECT_EQ(dx1, dx2);
  }
}

TEST_P(InBf16, BitsDependNeitherOnThreadsNorOnWhatIsComputedBeside) {
  constexpr std::int64_t t = 300, n = 333, k = 1500, r = 8;
  auto x = values(t * k, 1), w = values(n * k, 2), down = values(t * r, 4), up = values(n * r, 5);
  const int threads_before = threads();
  std::vector<float> y(t * n), part(t * n);
  auto product = [&](std::int64_t first, std::int64_t count, std::vector<float>& to) {
    gemm_nt(ForwardProduct{mat(x, t, k).slice(first, count), weight_of(mat(w, n, k)), mat(to, t, n).slice(first, count),
                           mat(down, t, r).slice(first, count), mat(up, n, r)},
            Write::set);
  };
  set_threads(1);
  product(0, t, y);
  for (int count : {2, 3, 7}) {
    set_threads(count);
    for (auto [first, rows] : {std::pair{0, 29}, {29, 10}, {39, 200}, {239, 61}}) product(first, rows, part);
    EXPECT_EQ(y, part) << count;
  }
  set_threads(threads_before);
}

TEST_P(InBf16, InfinityAndNanStayWhatTheyAre) {
  constexpr std::int64_t t = 20, n = 33, k = 41;
  auto x = values(t * k, 1), w = values(n * k, 2);
  std::vector<float> y(t * n);
  for (float bad : {std::numeric_limits<float>::infinity(), std::nanf(""), std::numeric_limits<float>::max()}) {
    auto spoilt = x;
    spoilt[3 * k + 40] = bad;  // the largest float32 rounds to infinity
    gemm_nt(mat(spoilt, t, k), weight_of(mat(w, n, k)), mat(y, t, n), Write::set);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isfinite(y[i]), i / n != 3) << i;
  }
}

// How products of few rows with a weight round, besides not at all: to bf16 (x always, values of the weight unless
// codes are exact in bf16 and their scale is applied to sums), or x to 16-bit integers under one scale for 256 columns.
enum class Rounding { none, bf16, integers };
Rounding rounding_of(const Kind& kind, std::int64_t k) {
  if (kind.dtype == DType::nf4 && k % kNf4Block != 0) return Rounding::none;
  if (isa() == Isa::avx512_bf16) {
    constexpr DType kInFloat32[] = {DType::mxfp4, DType::q4_1, DType::q5_0, DType::q5_1, DType::q5_k, DType::iq4_xs};
    return std::ranges::find(kInFloat32, kind.dtype) == std::end(kInFloat32) ? Rounding::bf16 : Rounding::none;
  }
  if (isa() == Isa::avx2) return is_quantized(kind.dtype) && k % 32 == 0 ? Rounding::integers : Rounding::none;
  if (isa() == Isa::amx && kind.dtype == DType::bf16) return Rounding::bf16;
  return isa() == Isa::amx && block_format(kind.dtype) && k % 64 == 0 ? Rounding::integers : Rounding::none;
}
bool scales_sums(DType dtype) {
  constexpr DType kThese[] = {DType::int8, DType::q4_0, DType::iq4_nl, DType::q4_k, DType::q6_k};
  return std::ranges::find(kThese, dtype) != std::end(kThese);
}

// A row of x as products of few rows read it.
std::vector<double> read_as(Rounding how, std::span<const float> x) {
  std::vector<double> read(x.begin(), x.end());
  if (how == Rounding::bf16) std::ranges::transform(x, read.begin(), rounded);
  for (std::size_t i = 0; how == Rounding::integers && i < x.size(); i += 256) {
    const auto some = x.subspan(i, std::min<std::size_t>(256, x.size() - i));
    float most = 0;
    for (float v : some) most = std::max(most, std::fabs(v));
    const double unit = most / (isa() == Isa::amx ? 32639 : 32767);  // digits of tiles: 127 · 256 + 127
    for (std::size_t j = 0; j < some.size() && unit > 0; ++j) read[i + j] = std::nearbyint(some[j] / unit) * unit;
  }
  return read;
}

TEST_P(InBf16, ProductsOfFewRowsAreThoseOfRoundedFactorsForEveryStoredType) {
  constexpr std::int64_t n = 27, most = 8;
  for (const Kind& kind : all_kinds())
    for (std::int64_t k : {64, 320, 100, 256, 1280}) {
      const bool blocks = kind.dtype == DType::mxfp4 || block_format(kind.dtype);
      if (blocks && k % kWholeBlocks != 0 && (k % 64 != 0 || dtype_row(kind.dtype).values == 256)) continue;
      Stored w(kind, n, k);
      auto x = values(static_cast<std::size_t>(most * k), 1);
      std::vector<float> all(most * n), part(most * n);
      gemm_nt(mat(x, most, k), w.weight, mat(all, most, n), Write::set, RowMethod::dots);
      const Rounding how = rounding_of(kind, k);
      // Of the terms' sizes. Those of q4_k are larger than their sum: a code's value less a minimum. Integers for the
      // codes of nf4 are within 2⁻¹⁴ of the largest, and their products are not rounded to bf16.
      double allowed = 2e-6;
      if (kind.dtype == DType::q4_k) allowed = 8e-6;
      if (kind.dtype == DType::nf4 && how == Rounding::integers) allowed = kind.bf16_values ? 2e-3 : 1e-4;
      for (std::int64_t i = 0; i < most * n; ++i) {
        const auto row =
            read_as(how, std::span(x).subspan(static_cast<std::size_t>(i / n * k), static_cast<std::size_t>(k)));
        double sum = 0, size = 0;
        for (std::int64_t d = 0; d < k; ++d) {
          const float b = w.plain[static_cast<std::size_t>(i % n * k + d)];
          const double right = how == Rounding::bf16 && !scales_sums(kind.dtype) ? rounded(b) : static_cast<double>(b);
          const double term = row[static_cast<std::size_t>(d)] * right;
          sum += term, size += std::fabs(term);
        }
        ASSERT_NEAR(all[static_cast<std::size_t>(i)], sum, allowed * size)
            << name_of(kind) << " " << k << " row " << i / n << " column " << i % n;
      }
      for (std::int64_t rows = 1; rows < most; ++rows) {
        for (std::int64_t first = 0; first < most; first += rows) {
          const std::int64_t count = std::min(rows, most - first);
          gemm_nt(mat(x, most, k).slice(first, count), w.weight, mat(part, most, n).slice(first, count), Write::set,
                  RowMethod::dots);
        }
        ASSERT_EQ(part, all) << name_of(kind) << " " << k << " " << rows;
      }
      gemm_nt(mat(x, most, k), w.weight, mat(part, most, n), Write::add, RowMethod::dots);
      for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], 2 * all[i]) << name_of(kind);
    }
}

TEST_P(InBf16, ProductsOfFewRowsKeepInfinityAndNanInTheirRow) {
  constexpr std::int64_t n = 9, most = 8;
  for (const Kind& kind : all_kinds())
    for (float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      Stored w(kind, n, kWholeBlocks);
      auto x = values(most * kWholeBlocks, 1);
      x[3 * kWholeBlocks + 40] = bad;
      std::ranges::fill(std::span(x).subspan(5 * kWholeBlocks, kWholeBlocks), 0.f);
      std::vector<float> y(most * n);
      gemm_nt(mat(x, most, kWholeBlocks), w.weight, mat(y, most, n), Write::set, RowMethod::dots);
      for (std::size_t i = 0; i < y.size(); ++i) {
        // Infinity times a weight that is zero is not a number, too.
        ASSERT_EQ(std::isfinite(y[i]), i / n != 3) << name_of(kind) << " " << i;
        if (i / n == 5) {
          ASSERT_EQ(y[i], 0) << name_of(kind) << " " << i;
        }
      }
    }
}

TEST_P(InBf16, FewRowsMayRoundWhereLargeProductsDoNot) {
  constexpr std::int64_t n = 24, most = 8;
  auto x = values(most * kWholeBlocks, 1);
  auto product = [&](const Weight& w, RowMethod how) {
    std::vector<float> y(most * n);
    gemm_nt(mat(x, most, kWholeBlocks), w, mat(y, most, n), Write::set, how);
    return y;
  };
  bool rounds = false;
  for (const Kind& kind : all_kinds()) {
    Stored w(kind, n, kWholeBlocks);
    use_precision(DType::bf16);
    const auto few = product(w.weight, RowMethod::dots);
    use_precision(DType::f32);
    const auto large = product(w.weight, RowMethod::packed), plain = product(w.weight, RowMethod::dots);
    use_precision(DType::f32, DType::bf16);
    EXPECT_EQ(product(w.weight, RowMethod::dots), few) << name_of(kind);
    EXPECT_EQ(product(w.weight, RowMethod::packed), large) << name_of(kind);
    rounds = rounds || few != plain;
  }
  EXPECT_EQ(rounds, has_few_rows_in_bf16());
}

}  // namespace
}  // namespace dml::kernels
