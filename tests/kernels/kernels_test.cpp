// What the table of cases does not cover: storages, single rows, odd modes, optimizers, and walks without memory.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/bf16.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gemm.h"
#include "kernels/optimizer_step.h"
#include "kernels/quant_int8.h"
#include "kernels/quant_nf4.h"
#include "kernels/simd/loops.h"
#include "stored.h"
#include "values.h"

namespace dml::kernels {
namespace {

TEST(Weight, UnpacksEveryHalf) {
  std::vector<std::uint16_t> bits(65536);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  std::vector<float> out(65536);
  for (Isa each : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(each)) continue;
    unpack({DType::f16, 1, 65536, bits.data()}, 0, 1, 0, 65536, out.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      float expected = to_float(f16{bits[i]});
      if (std::isnan(expected)) EXPECT_TRUE(std::isnan(out[i]));
      else ASSERT_EQ(out[i], expected) << i;
    }
    unpack({DType::bf16, 1, 65536, bits.data()}, 0, 1, 1, 65535, out.data());
    for (std::size_t i = 0; i + 1 < out.size(); ++i) {
      float expected = to_float(bf16{bits[i + 1]});
      if (std::isnan(expected)) continue;
      ASSERT_EQ(out[i], expected) << i;
    }
  }
  use_isa(best_isa());
}

// OpenBLAS itself would try forever.
TEST(GemmDeathTest, ByOpenBlasWithoutRoomForItsBufferIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto multiply = [] {
    alarm(60);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
    const rlimit limit{most, most};
    setrlimit(RLIMIT_AS, &limit);
    const std::vector<float> a(4096, 1);
    std::vector<float> c(4096);
    try {
      sgemm_tile(false, false, 64, 64, 64, 1, a.data(), 64, a.data(), 64, 0, c.data(), 64);
    } catch (const Error& e) {
      std::_Exit(static_cast<int>(e.code()));
    }
    std::_Exit(1);
  };
  EXPECT_EXIT(multiply(), testing::ExitedWithCode(static_cast<int>(ExitCode::memory)), "");
}

TEST(Gemm, OfABf16WeightHasTheBitsOfItsFloat32Values) {
  constexpr std::int64_t n = 130, k = 2112;
  for (std::int64_t t : {1, 5, 70}) {
    auto x = values(static_cast<std::size_t>(t * k), 1), w = values(n * k, 2),
         dy = values(static_cast<std::size_t>(t * n), 3);
    std::vector<bf16> stored(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) stored[i] = to_bf16(w[i]), w[i] = to_float(stored[i]);
    Weight a{DType::f32, n, k, w.data()}, b{DType::bf16, n, k, stored.data()};
    std::vector<float> y1(dy.size()), y2(dy.size()), dx1(x.size()), dx2(x.size());
    gemm_nt(mat(x, t, k), a, mat(y1, t, n), Write::set);
    gemm_nt(mat(x, t, k), b, mat(y2, t, n), Write::set);
    EXPECT_EQ(y1, y2);
    gemm_nn(mat(dy, t, n), a, mat(dx1, t, k), Write::set);
    gemm_nn(mat(dy, t, n), b, mat(dx2, t, k), Write::set);
    EXPECT_EQ(dx1, dx2);
  }
}

TEST(Gemm, AddsWhereAsked) {
  auto x = values(20 * 30, 1), w = values(10 * 30, 2);
  for (std::int64_t t : {1, 20}) {
    std::vector<float> once(static_cast<std::size_t>(t * 10)), twice(once.size());
    gemm_nt(mat(x, t, 30), weight_of(mat(w, 10, 30)), mat(once, t, 10), Write::set);
    for (int i = 0; i < 2; ++i) gemm_nt(mat(x, t, 30), weight_of(mat(w, 10, 30)), mat(twice, t, 10), Write::add);
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-5f);
  }
}

TEST(Gemm, OfFewRowsHasTheBitsOfOneRowAndOfTheFloat32Values) {
  for (Isa wanted : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(wanted)) continue;
    for (const Kind& kind : all_kinds())
      for (std::int64_t k : {64, 333, 320, 6400}) {
        if (block_format(kind.dtype) && k % dtype_row(kind.dtype).values != 0) continue;
        if (kind.dtype == DType::mxfp4 && k % 64 != 0) continue;
        constexpr std::int64_t n = 83, most = 8;
        Stored w(kind, n, k);
        auto x = values(static_cast<std::size_t>(most * k), 1);
        std::vector<float> one(n * most), few(n * most), plain(n);
        const bool int8 = kind.dtype == DType::int8, tiles = wanted == Isa::amx && (int8 || kind.bf16_values);
        auto size = [&](std::int64_t i, std::int64_t j) {
          double sum = 0;
          for (std::int64_t d = 0; d < k; ++d)
            sum += std::fabs(static_cast<double>(x[static_cast<std::size_t>(i * k + d)]) *
                             static_cast<double>(w.plain[static_cast<std::size_t>(j * k + d)]));
          return sum;
        };
        for (std::int64_t i = 0; i < most; ++i) {
          gemm_nt(mat(x, most, k).slice(i, 1), w.weight, mat(one, most, n).slice(i, 1), Write::set);
          loops().dot_block(1, n, k, x.data() + i * k, k, w.plain.data(), k, plain.data(), n, false);
          for (std::int64_t j = 0; j < n; ++j) {
            float got = one[static_cast<std::size_t>(i * n + j)], want = plain[static_cast<std::size_t>(j)];
            ASSERT_NEAR(got, want, int8 ? 1e-6 * size(i, j) : 0) << testing::PrintToString(kind) << " " << k;
          }
        }
        for (std::int64_t rows = 2; rows <= most; ++rows) {
          gemm_nt(mat(x, most, k).slice(0, rows), w.weight, mat(few, most, n).slice(0, rows), Write::set);
          if (tiles && rows == 3) {  // from here on, in another order
            gemm_nt(mat(x, most, k), w.weight, mat(few, most, n), Write::set);
            for (std::int64_t i = 0; i < most * n; ++i)
              ASSERT_NEAR(few[static_cast<std::size_t>(i)], one[static_cast<std::size_t>(i)], 1e-6 * size(i / n, i % n))
                  << testing::PrintToString(kind) << " " << k;
            one = few;
            gemm_nt(mat(x, most, k).slice(0, rows), w.weight, mat(few, most, n).slice(0, rows), Write::set);
          }
          ASSERT_TRUE(std::equal(few.begin(), few.begin() + rows * n, one.begin()))
              << testing::PrintToString(kind) << " " << k << " " << rows;
          gemm_nt(mat(x, most, k).slice(0, rows), w.weight, mat(few, most, n).slice(0, rows), Write::add);
          for (std::int64_t j = 0; j < rows * n; ++j)
            ASSERT_EQ(few[static_cast<std::size_t>(j)], 2 * one[static_cast<std::size_t>(j)]);
        }
      }
  }
  use_isa(best_isa());
}

TEST(Gemm, ARowHasTheSameBitsBesideAnyOtherRows) {
  constexpr std::int64_t n = 83, k = 320, most = 21;
  for (Isa wanted : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(wanted)) continue;
    for (const Kind& kind : kKinds) {
      Stored w(kind, n, k);
      auto x = values(static_cast<std::size_t>(most * k), 1);
      for (RowMethod how : {RowMethod::dots, RowMethod::packed}) {
        std::vector<float> all(n * most), part(n * most);
        gemm_nt(mat(x, most, k), w.weight, mat(all, most, n), Write::set, how);
        for (std::int64_t rows : {1, 2, 3, 9, 16}) {
          for (std::int64_t first = 0; first < most; first += rows) {
            const std::int64_t count = std::min(rows, most - first);
            gemm_nt(mat(x, most, k).slice(first, count), w.weight, mat(part, most, n).slice(first, count), Write::set,
                    how);
          }
          ASSERT_EQ(part, all) << testing::PrintToString(kind) << " " << rows << " " << isa_name();
        }
      }
    }
  }
  use_isa(best_isa());
}

TEST(Gemm, TakesALowRankTermAlong) {
  constexpr std::int64_t t = 70, n = 330, k = 700;
  auto x = values(t * k, 1), w = values(n * k, 2), dy = values(t * n, 3);
  for (Isa wanted : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(wanted)) continue;
    for (std::int64_t r : {1, 8, 16, 20})
      for (Write mode : {Write::set, Write::add}) {
        auto low = values(t * r, 4), b = values(n * r, 5), a = values(r * k, 6);
        auto y = values(t * n, 7), dx = values(t * k, 8), part = y;
        auto plain_y = y, plain_dx = dx;
        const Weight weight = weight_of(mat(w, n, k));
        gemm_nt(ForwardProduct{mat(x, t, k), weight, mat(y, t, n), mat(low, t, r), mat(b, n, r)}, mode);
        gemm_nn(InputGradient{mat(dy, t, n), weight, mat(dx, t, k), mat(low, t, r), mat(a, r, k)}, mode);
        gemm_nt(mat(x, t, k), weight, mat(plain_y, t, n), mode);
        gemm_nt(mat(low, t, r), weight_of(mat(b, n, r)), mat(plain_y, t, n), Write::add);
        gemm_nn(mat(dy, t, n), weight, mat(plain_dx, t, k), mode);
        gemm_nn(mat(low, t, r), weight_of(mat(a, r, k)), mat(plain_dx, t, k), Write::add);
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], plain_y[i], 2e-4) << r;
        for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], plain_dx[i], 2e-4) << r;
        for (auto [first, count] : {std::pair{0, 29}, {29, 41}})
          gemm_nt(ForwardProduct{mat(x, t, k).slice(first, count), weight, mat(part, t, n).slice(first, count),
                                 mat(low, t, r).slice(first, count), mat(b, n, r)},
                  mode);
        EXPECT_EQ(y, part) << r;
      }
  }
  use_isa(best_isa());
}

TEST(Gemm, OfManyRowsHasTheBitsOfAnyPartOfThem) {
  constexpr std::int64_t t = 700, n = 320, k = 704;
  auto x = values(t * k, 1), dy = values(t * n, 3);
  for (Isa wanted : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(wanted)) continue;
    for (const Kind& kind : kKinds) {
      Stored w(kind, n, k);
      std::vector<float> y(t * n), dx(t * k), part_y(y.size()), part_dx(dx.size());
      gemm_nt(mat(x, t, k), w.weight, mat(y, t, n), Write::set);
      gemm_nn(mat(dy, t, n), w.weight, mat(dx, t, k), Write::set);
      for (auto [first, count] : {std::pair{0, 29}, {29, 10}, {39, 600}, {639, 61}}) {
        gemm_nt(mat(x, t, k).slice(first, count), w.weight, mat(part_y, t, n).slice(first, count), Write::set);
        gemm_nn(mat(dy, t, n).slice(first, count), w.weight, mat(part_dx, t, k).slice(first, count), Write::set);
      }
      EXPECT_EQ(y, part_y) << testing::PrintToString(kind);
      EXPECT_EQ(dx, part_dx) << testing::PrintToString(kind);
      gemm_nt(mat(x, t, k), weight_of(mat(w.plain, n, k)), mat(part_y, t, n), Write::set);
      EXPECT_EQ(y, part_y) << "as float32: " << testing::PrintToString(kind);
    }
  }
  use_isa(best_isa());
}

// Two parts of a value instead of three on AMX would be 10⁻⁵ off.
TEST(Gemm, IsAsExactAsFloat32OnEveryInstructionSet) {
  constexpr std::int64_t t = 45, n = 70, k = 900;
  auto x = values(t * k, 1), w = values(n * k, 2);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i * 7919 % 41) - 20);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = std::ldexp(w[i], static_cast<int>(i * 104729 % 41) - 20);
  std::vector<float> y(t * n);
  for (Isa each : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(each)) continue;
    gemm_nt(mat(x, t, k), weight_of(mat(w, n, k)), mat(y, t, n), Write::set);
    for (std::size_t i = 0; i < t; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (std::size_t d = 0; d < k; ++d) {
          double term = static_cast<double>(x[i * k + d]) * static_cast<double>(w[j * k + d]);
          sum += term, size += std::fabs(term);
        }
        ASSERT_LT(std::fabs(y[i * n + j] - sum), 1e-6 * size) << isa_name();
      }
  }
  use_isa(best_isa());
}

TEST(Gemm, PropagatesInfinityAndNan) {
  constexpr std::int64_t t = 20, n = 33, k = 40;
  auto x = values(t * k, 1), w = values(n * k, 2);
  std::vector<float> y(t * n);
  for (Isa each : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(each)) continue;
    for (float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      auto spoilt = x;
      spoilt[3 * k + 5] = bad;
      gemm_nt(mat(spoilt, t, k), weight_of(mat(w, n, k)), mat(y, t, n), Write::set);
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isfinite(y[i]), i / n != 3) << isa_name() << " " << i;
    }
  }
  use_isa(best_isa());
}

// On AMX x becomes fixed-point numbers there.
TEST(Gemm, OfFewRowsWithInt8KeepsSmallValuesBesideAnOutlierAndPropagatesNan) {
  constexpr std::int64_t t = 3, n = 40, k = 333;
  Stored w({DType::int8}, n, k);
  auto x = values(t * k, 1);
  x[k + 7] = 3e5f;
  std::fill_n(x.begin() + 2 * k, k, 0.f);
  std::vector<float> y(t * n);
  for (Isa each : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(each)) continue;
    gemm_nt(mat(x, t, k), w.weight, mat(y, t, n), Write::set);
    for (std::size_t i = 0; i < t; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (std::size_t d = 0; d < k; ++d) {
          const double term = static_cast<double>(x[i * k + d]) * static_cast<double>(w.plain[j * k + d]);
          sum += term, size += std::fabs(term);
        }
        ASSERT_LE(std::fabs(y[i * n + j] - sum), 1e-6 * size) << isa_name();
      }
    for (float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      auto spoilt = x;
      spoilt[5] = bad;
      gemm_nt(mat(spoilt, t, k), w.weight, mat(y, t, n), Write::set);
      for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isfinite(y[i]), i / n != 0) << isa_name() << " " << i;
    }
  }
  use_isa(best_isa());
}

TEST(CachedRows, HoldFloat32AsItIsAndOthersAsRounded) {
  constexpr std::int64_t rows = 9, heads = 3, head_dim = 20, width = heads * head_dim;
  auto x = values(2 * width, 4);
  std::fill_n(x.begin() + head_dim, head_dim, 0.f);  // a head of nothing
  for (DType dtype : {DType::f32, DType::bf16, DType::int8}) {
    std::vector<std::byte> memory(rows * width * 4);
    std::vector<float> scales(rows * heads), back(x.size()), head(2 * head_dim);
    CachedRows cache{dtype, rows, heads, head_dim, memory.data(), scales.data()};
    store_rows(mat(x, 2, width), cache, 5);
    load_rows(cache, 5, mat(back, 2, width));
    for (std::size_t i = 0; i < x.size(); ++i) {
      float largest = 0;
      for (std::size_t j = 0; j < head_dim; ++j) largest = std::max(largest, std::fabs(x[i / head_dim * head_dim + j]));
      float allowed = dtype == DType::f32 ? 0 : dtype == DType::bf16 ? std::fabs(x[i]) / 256 : largest / 253;
      EXPECT_NEAR(back[i], x[i], allowed) << static_cast<int>(dtype) << " " << i;
    }
    load_head(cache, 2, 5, 2, head.data());
    for (std::size_t r = 0; r < 2; ++r)
      for (std::size_t j = 0; j < head_dim; ++j) EXPECT_EQ(head[r * head_dim + j], back[r * width + 2 * head_dim + j]);
  }
}

TEST(Embedding, ScalesAndAddsInTokenOrder) {
  auto table = values(7 * 33, 1), dy = values(4 * 33, 2);
  std::vector<Token> tokens{3, 0, 3, 6};
  std::vector<float> y(4 * 33, 1), d(7 * 33);
  embed(tokens, weight_of(mat(table, 7, 33)), 2, mat(y, 4, 33), Write::add);
  embed_backward(tokens, mat(dy, 4, 33), 2, mat(d, 7, 33));
  for (std::size_t j = 0; j < 33; ++j) {
    EXPECT_FLOAT_EQ(y[33 + j], 1 + 2 * table[j]);
    EXPECT_FLOAT_EQ(d[3 * 33 + j], 2 * dy[j] + 2 * dy[66 + j]);
    EXPECT_EQ(d[33 + j], 0);
  }
}

TEST(Embedding, InPartsHasTheBitsOfTheWhole) {
  constexpr std::int64_t d = 33;
  auto table = values(7 * d, 1), dy = values(5 * d, 2);
  std::vector<Token> tokens{3, 0, 3, 6, 4};
  std::vector<float> y(5 * d), dtable(7 * d), y_parts(5 * d), d_parts(7 * d);
  embed(tokens, weight_of(mat(table, 7, d)), 1.5f, mat(y, 5, d));
  embed_backward(tokens, mat(dy, 5, d), 1.5f, mat(dtable, 7, d));
  for (auto [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, 3}}) {
    embed_part(tokens, first, weight_of(mat(table, 7, d).slice(first, count)), 1.5f, mat(y_parts, 5, d));
    embed_part_backward(tokens, first, mat(dy, 5, d), 1.5f, mat(d_parts, 7, d).slice(first, count));
  }
  EXPECT_EQ(y_parts, y);
  EXPECT_EQ(d_parts, dtable);
}

// 1200 rows are three chunks: the first one's logits are kept, the others' computed again.
TEST(CrossEntropy, InPartsHasTheBitsOfTheWhole) {
  constexpr std::int64_t d = 24, v = 1000;
  const std::vector<std::int64_t> starts{0, 448, 896, v};
  for (std::int64_t n : {0, 5, 300, 1200})
    for (float softcap : {0.f, 20.f}) {
      auto h = values(std::max<std::int64_t>(1, n * d), 1), w = values(v * d, 2);
      std::vector<Token> labels;
      for (std::int64_t i = 0; i < n; ++i) labels.push_back(static_cast<Token>(i * 37 % v));
      const auto size = static_cast<std::size_t>(n);
      std::vector<float> losses(size), losses_parts(size), squares(size), squares_parts(size), dh(h.size()),
          dh_parts(h.size()), dw(v * d), dw_parts(v * d);
      Arena arena(std::size_t{64} << 20);
      const double whole = cross_entropy({mat(h, n, d), {labels, losses, squares}, softcap, {}, mat(dh, n, d)},
                                         WholeHead{weight_of(mat(w, v, d)), mat(dw, v, d)}, arena);
      std::string visits;
      auto rows = [&](std::vector<float>& all, std::size_t k) {
        return mat(all, v, d).slice(starts[k], starts[k + 1] - starts[k]);
      };
      const HeadParts head{starts,
                           [&](std::size_t k, bool gradient) -> HeadParts::Rows {
                             visits += fmt::format("{}{} ", k, gradient ? "+" : "");
                             return {weight_of(rows(w, k)), gradient ? rows(dw_parts, k) : Mat{}};
                           },
                           [&](std::size_t k) { visits += fmt::format("{}. ", k); }};
      EXPECT_EQ(cross_entropy({mat(h, n, d), {labels, losses_parts, squares_parts}, softcap, {}, mat(dh_parts, n, d)},
                              head, arena),
                whole);
      EXPECT_EQ(visits, "0 1 2 0+ 0. 1+ 1. 2+ 2. ");
      EXPECT_EQ(losses_parts, losses);
      EXPECT_EQ(squares_parts, squares);
      EXPECT_EQ(dh_parts, dh);
      EXPECT_EQ(dw_parts, dw);
      visits.clear();
      EXPECT_EQ(cross_entropy({mat(h, n, d), {labels}, softcap}, head, arena), whole);  // evaluation
      EXPECT_EQ(visits, "0 1 2 ");
    }
}

// log Σ p² of rows, with and without a gradient, a soft cap and a bias.
TEST(CrossEntropy, SquaresAreThoseOfTheProbabilities) {
  constexpr std::int64_t d = 24, v = 1000, n = 40;
  auto h = values(n * d, 1), w = values(v * d, 2), bias = values(v, 3);
  const std::vector<Token> labels(n, 7);
  for (const float softcap : {0.f, 5.f})
    for (const bool gradient : {false, true}) {
      std::vector<float> squares(n), dh(h.size());
      Arena arena(std::size_t{64} << 20);
      cross_entropy({mat(h, n, d), {labels, {}, squares}, softcap, {bias.data()}, gradient ? mat(dh, n, d) : Mat{}},
                    WholeHead{weight_of(mat(w, v, d))}, arena);
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<double> x(v);
        double sum = 0, square = 0;
        for (std::size_t j = 0; j < v; ++j) {
          for (std::size_t k = 0; k < d; ++k)
            x[j] += static_cast<double>(h[i * d + k]) * static_cast<double>(w[j * d + k]);
          x[j] += static_cast<double>(bias[j]);
          if (softcap > 0) x[j] = static_cast<double>(softcap) * std::tanh(x[j] / static_cast<double>(softcap));
          sum += std::exp(x[j]);
        }
        for (const double value : x) square += std::exp(2 * value) / sum / sum;
        ASSERT_NEAR(squares[i], std::log(square), 1e-5) << softcap << gradient << " row " << i;
      }
    }
}

// A row has the same bits alone and beside others.
TEST(CrossEntropy, ALossDoesNotDependOnTheOtherRows) {
  constexpr std::int64_t d = 48, v = 1000, n = 40;
  auto h = values(n * d, 1), w = values(v * d, 2);
  const std::vector<Token> labels(n, 7);
  std::vector<float> all(n), one(1);
  Arena arena(std::size_t{64} << 20);
  const WholeHead head{weight_of(mat(w, v, d))};
  cross_entropy({mat(h, n, d), {labels, all}}, head, arena);
  for (std::int64_t i = 0; i < n; ++i) {
    cross_entropy({mat(h, n, d).slice(i, 1), {std::span(labels).first(1), one}}, head, arena);
    ASSERT_EQ(one[0], all[static_cast<std::size_t>(i)]) << i;
  }
}

// Rows that are trained by themselves are those of a head that has them in their places; 1200 rows are three chunks.
TEST(CrossEntropy, WithReplacedRowsIsThatOfTheChangedHead) {
  constexpr std::int64_t d = 24, v = 1000, k = 4;
  const std::vector<std::int32_t> tokens{3, 447, 448, 999}, numbers{2, 0, 3, 1};
  for (std::int64_t n : {1, 5, 300, 1200})
    for (float softcap : {0.f, 20.f}) {
      auto h = values(static_cast<std::size_t>(n * d), 1), w = values(v * d, 2), rows = values(k * d, 3), changed = w;
      for (std::size_t i = 0; i < tokens.size(); ++i)
        std::copy_n(&rows[static_cast<std::size_t>(numbers[i] * d)], d,
                    &changed[static_cast<std::size_t>(tokens[i] * d)]);
      std::vector<Token> labels;
      for (std::int64_t i = 0; i < n; ++i)
        labels.push_back(static_cast<Token>(i % 3 == 0 ? tokens[i / 3 % 4] : i * 37 % v));
      std::vector<float> dh(h.size()), dh_own = h, dw(v * d), drows(k * d, 1);
      Arena arena(std::size_t{64} << 20);
      const double whole = cross_entropy({mat(h, n, d), {labels}, softcap, {}, mat(dh, n, d)},
                                         WholeHead{weight_of(mat(changed, v, d)), mat(dw, v, d)}, arena);
      const ReplacedRows replaced{tokens, numbers, mat(rows, k, d), mat(drows, k, d)};
      WholeHead frozen{weight_of(mat(w, v, d))};
      frozen.replaced = &replaced;
      const double own = cross_entropy({mat(dh_own, n, d), {labels}, softcap, {}, mat(dh_own, n, d)}, frozen, arena);
      EXPECT_NEAR(own, whole, 1e-6 * whole);
      for (std::size_t i = 0; i < dh.size(); ++i) ASSERT_NEAR(dh_own[i], dh[i], 1e-5) << i;
      for (std::size_t i = 0; i < tokens.size(); ++i)
        for (std::int64_t j = 0; j < d; ++j) {
          const float wanted = dw[static_cast<std::size_t>(tokens[i] * d + j)];
          EXPECT_NEAR(drows[static_cast<std::size_t>(numbers[i] * d + j)], 1 + wanted, 1e-4 * (1 + std::fabs(wanted)));
        }
      const ReplacedRows looking{tokens, numbers, mat(rows, k, d), {}};
      frozen.replaced = &looking;
      EXPECT_EQ(cross_entropy({mat(h, n, d), {labels}, softcap}, frozen, arena), own);
    }
}

TEST(Rows, GatherAndScatterAreInverse) {
  auto x = values(9 * 5, 1);
  std::vector<std::int32_t> rows{7, 2, 4};
  std::vector<float> some(15), back(45, 1);
  gather_rows(mat(x, 9, 5), rows, mat(some, 3, 5));
  scatter_rows(mat(some, 3, 5), rows, mat(back, 9, 5), Write::set);
  for (std::size_t i = 0; i < 45; ++i) EXPECT_EQ(back[i], i / 5 == 7 || i / 5 == 2 || i / 5 == 4 ? x[i] : 0);
  scatter_rows(mat(some, 3, 5), rows, mat(back, 9, 5), Write::add);
  EXPECT_FLOAT_EQ(back[10], 2 * x[10]);
}

TEST(Rows, EqualNumbersAreSummed) {
  auto x = values(5 * 70, 1);
  const std::vector<std::int32_t> rows{1, 0, 1, 3, 1};
  std::vector<float> sums(4 * 70, 1);
  sum_rows(mat(x, 5, 70), rows, mat(sums, 4, 70));
  for (std::size_t j = 0; j < 70; ++j) {
    EXPECT_EQ(sums[j], x[70 + j]);
    EXPECT_EQ(sums[70 + j], x[j] + x[140 + j] + x[280 + j]);
    EXPECT_EQ(sums[140 + j], 0);
    EXPECT_EQ(sums[210 + j], x[210 + j]);
  }
}

TEST(Bias, BackwardSumsColumns) {
  auto dy = values(130 * 300, 1), bias = values(300, 2);
  std::vector<float> d(300, 1), y(130 * 300);
  Arena scratch(1 << 16);
  bias_backward(mat(dy, 130, 300), d.data());
  add_bias(bias.data(), mat(y, 130, 300));
  for (std::size_t j = 0; j < 300; ++j) {
    double sum = 1;
    for (std::size_t t = 0; t < 130; ++t) sum += static_cast<double>(dy[t * 300 + j]);
    EXPECT_NEAR(d[j], sum, 1e-4);
    EXPECT_EQ(y[129 * 300 + j], bias[j]);
  }
}

TEST(Dropout, IsTheMaskOfItsRandomStreamOnEveryInstructionSet) {
  std::vector<float> x(50007, 2), y(x.size());
  Random random(11, Purpose::dropout, 3, 4);
  for (Isa each : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(each)) continue;
    dropout(mat(x, 1, 50007), 0.3f, random, mat(y, 1, 50007));
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_FLOAT_EQ(y[i], random.uniform(i) >= 0.3f ? 2 / 0.7f : 0.f) << i;
  }
  use_isa(best_isa());
}

TEST(Dropout, CarriesIntoTheHighHalfOfTheCounter) {
  std::vector<float> x(200, 1), y(x.size());
  Random random(11, Purpose::dropout);
  constexpr std::uint64_t kFirst = 0xfffffff5u;
  for (Isa each : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!use_isa(each)) continue;
    loops().dropout(x.data(), 200, 1u << 23, 1, kFirst, random.key().data(), random.high().data(), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], random.uniform(4 * kFirst + i) >= 0.5f ? 1.f : 0.f) << i;
  }
  use_isa(best_isa());
}

TEST(Blas, DoesNotTakeAModernProcessorForAnOldOne) {
  if (best_isa() == Isa::portable) GTEST_SKIP() << "an old processor";
  EXPECT_EQ(std::string(blas_description()).find("Prescott"), std::string::npos) << blas_description();
}

TEST(Reductions, AreExactOverManyBlocks) {
  std::vector<float> x(100003, 0.5f);
  EXPECT_EQ(loops().sum_of_squares(x.data(), 100003), 100003 * 0.25);
  EXPECT_EQ(first_not_finite(x), -1);
  x[70001] = std::numeric_limits<float>::infinity();
  x[90000] = std::nanf("");
  EXPECT_EQ(first_not_finite(x), 70001);
}

TEST(AdamW, TakesTheStepOfItsFormula) {
  auto value = values(1000, 1), grad = values(1000, 2), m = values(1000, 3), v = values(1000, 4);
  for (float& each : v) each *= each;
  AdamWStep s{0.01f, 0.9f, 0.99f, 1e-8f, 0.1f, 0.5f, 0.25f, 0.125f};
  auto old = value, m0 = m, v0 = v;
  adamw(s, value, grad, m, v);
  for (std::size_t i = 0; i < value.size(); ++i) {
    double g = 0.125 * static_cast<double>(grad[i]);
    double m1 = 0.9 * static_cast<double>(m0[i]) + 0.1 * g, v1 = 0.99 * static_cast<double>(v0[i]) + 0.01 * g * g;
    double expected = static_cast<double>(old[i]) * (1 - 0.01 * 0.1) - 0.01 / 0.5 * m1 / (std::sqrt(v1) / 0.5 + 1e-8);
    EXPECT_NEAR(m[i], m1, 1e-6);
    EXPECT_NEAR(v[i], v1, 1e-5);
    EXPECT_NEAR(value[i], expected, 1e-5 * (1 + std::fabs(expected)));
  }
}

TEST(SgdAndLion, TakeTheStepsOfTheirFormulas) {
  std::vector<float> value{1}, grad{4}, buffer{0.5f};
  sgd(0.1f, 0.9f, 0.01f, 0.5f, value, grad, buffer);
  EXPECT_FLOAT_EQ(buffer[0], 0.9f * 0.5f + 2 + 0.01f);
  EXPECT_FLOAT_EQ(value[0], 1 - 0.1f * buffer[0]);
  std::vector<float> w{1}, m{-0.5f};
  lion(0.1f, 0.9f, 0.99f, 0.01f, 0.5f, w, grad, m);
  EXPECT_FLOAT_EQ(w[0], 1 - 0.1f * 0.01f + 0.1f);  // 0.9 · −0.5 + 0.1 · 2 is negative
  EXPECT_FLOAT_EQ(m[0], 0.99f * -0.5f + 0.01f * 2);
}

TEST(DryRun, TouchesNoMemoryAndTakesWhatTheRealRunTakes) {
  auto walk = [](Arena& arena, float* base) {
    Mat h{base, 40, 16}, w{base, 300, 16};
    std::vector<Token> labels(40, 5);
    std::vector<std::int32_t> starts{0, 40};
    Mat lse = arena.matrix(40, 1);
    attention_backward({.heads = 1, .kv_heads = 1, .head_dim = 16}, h, h, h, h, h, lse, starts, h, h, h, arena);
    EXPECT_EQ(cross_entropy({h, {labels}, 0, {}, h}, WholeHead{weight_of(w), w}, arena), 0);
    return arena.high_water();
  };
  Arena counting = Arena::measuring();
  DryRun dry;
  EXPECT_GT(walk(counting, reinterpret_cast<float*>(64)), std::size_t{40 * 300 * 4});
}

}  // namespace
}  // namespace dml::kernels
