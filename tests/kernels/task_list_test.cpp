// Several operations at once against each of them alone: the same bits, whatever the rows of the others and the
// threads; and against slow sums in double precision.
#include "kernels/task_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/arena.h"
#include "core/parallel.h"
#include "kernels/gemm.h"
#include "kernels/lora.h"
#include "kernels/simd/loops.h"
#include "stored.h"

namespace dml::kernels {
namespace {

// Rows of experts, one after the other: none, few enough to be dots, parts of a register block, many.
constexpr std::int64_t kExpertRows[] = {0, 1, 58, 9, 0, 37, 8, 120};
constexpr std::int64_t kExperts = std::size(kExpertRows), kIn = kWholeBlocks, kOut = 100, kRank = 8;

struct Experts {
  std::vector<Stored> weights;
  std::int64_t starts[kExperts + 1] = {};
  std::vector<float> x, dy, down, a, b;

  explicit Experts(Kind kind) {
    for (std::int64_t e = 0; e < kExperts; ++e) {
      weights.emplace_back(kind, kOut, kIn, static_cast<std::uint64_t>(20 + e));
      starts[e + 1] = starts[e] + kExpertRows[e];
    }
    auto random = [](std::int64_t size, std::uint64_t seed) { return values(static_cast<std::size_t>(size), seed); };
    x = random(rows() * kIn, 1), dy = random(rows() * kOut, 2), down = random(rows() * kRank, 3);
    a = random(kExperts * kRank * kIn, 4), b = random(kExperts * kOut * kRank, 5);
  }
  std::int64_t rows() const { return starts[kExperts]; }
  const Weight& weight(std::int64_t e) const { return weights[static_cast<std::size_t>(e)].weight; }
  Mat of(std::int64_t e, std::vector<float>& all, std::int64_t cols) const {
    return mat(all, rows(), cols).slice(starts[e], kExpertRows[e]);
  }
  Mat low(std::int64_t e, std::vector<float>& all, std::int64_t rows_of_one, std::int64_t cols) const {
    return mat(all, kExperts * rows_of_one, cols).slice(e * rows_of_one, rows_of_one);
  }
};

// f computes the experts [first, first + count) into its argument; all at once must be what each gives alone.
template <class F>
void expect_each_alone(std::size_t size, F f) {
  auto start = values(size, 9);
  std::vector<float> alone = start;
  for (std::int64_t e = 0; e < kExperts; ++e) f(e, 1, alone);
  EXPECT_NE(alone, start);
  const int before = threads();
  for (int count : {1, 3}) {
    set_threads(count);
    std::vector<float> together = start;
    f(0, kExperts, together);
    EXPECT_EQ(together, alone) << count << " threads, " << isa_name();
  }
  set_threads(before);
}

template <class F>
void each_isa(F f) {
  for (Isa wanted : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx})
    if (use_isa(wanted)) f();
  use_isa(best_isa());
}
// Calls f with products in float32 and in bf16.
template <class F>
void each_precision(F f) {
  for (DType wanted : {DType::f32, DType::bf16}) {
    use_precision(wanted);
    f();
  }
  use_precision(DType::f32);
}

class SeveralStored : public testing::TestWithParam<Kind> {
 protected:
  // Of the experts [first, first + count), those with even numbers with an adapter; both add.
  void forward(std::int64_t first, std::int64_t count, RowMethod how, std::vector<float>& y) {
    auto product = [&](std::int64_t i) {
      const std::int64_t e = first + i;
      ForwardProduct p{m.of(e, m.x, kIn), m.weight(e), m.of(e, y, kOut)};
      if (e % 2 == 0) p.down = m.of(e, m.down, kRank), p.b = m.low(e, m.b, kOut, kRank);
      return p;
    };
    gemm_nt({count, product}, Write::add, how);
  }
  void backward(std::int64_t first, std::int64_t count, std::vector<float>& dx) {
    auto product = [&](std::int64_t i) {
      const std::int64_t e = first + i;
      InputGradient p{m.of(e, m.dy, kOut), m.weight(e), m.of(e, dx, kIn)};
      if (e % 2 == 0) p.ddown = m.of(e, m.down, kRank), p.a = m.low(e, m.a, kRank, kIn);
      return p;
    };
    gemm_nn({count, product}, Write::add);
  }
  // What any float32 sum of these terms, in any order, may be off by: half a unit in the last place for each that is
  // added.
  static constexpr double kTerms = kIn + kRank + 2, kUnit = 0x1p-24;

  Experts m{GetParam()};
};

TEST_P(SeveralStored, ProductsHaveTheBitsOfEachAlone) {
  each_isa([&] {
    for (RowMethod how : {RowMethod::by_count, RowMethod::dots, RowMethod::packed})
      expect_each_alone(m.dy.size(), [&](std::int64_t first, std::int64_t count, std::vector<float>& y) {
        forward(first, count, how, y);
      });
    expect_each_alone(m.x.size(), [&](std::int64_t first, std::int64_t count, std::vector<float>& dx) {
      backward(first, count, dx);
    });
  });
}

TEST_P(SeveralStored, ProductsAreTheSlowSumsOfTheirRows) {
  const std::vector<float> y0 = values(m.dy.size(), 9), dx0 = values(m.x.size(), 9);
  each_isa([&] {
    std::vector<float> dots = y0, packed = y0, by_count = y0, dx = dx0;
    forward(0, kExperts, RowMethod::dots, dots), forward(0, kExperts, RowMethod::packed, packed);
    forward(0, kExperts, RowMethod::by_count, by_count), backward(0, kExperts, dx);
    for (std::int64_t e = 0; e < kExperts; ++e) {
      const ConstMat w = mat(m.weights[static_cast<std::size_t>(e)].plain, kOut, kIn);
      const std::int64_t rank = e % 2 == 0 ? kRank : 0;
      const ConstMat a = m.low(e, m.a, kRank, kIn), b = m.low(e, m.b, kOut, kRank);
      for (std::int64_t r = m.starts[e]; r < m.starts[e + 1]; ++r) {
        double sum = 0, size = 0;
        auto add = [&](double x, double factor) { sum += x * factor, size += std::fabs(x * factor); };
        auto begin = [&](double before) { sum = before, size = std::fabs(before); };
        auto at = [](const std::vector<float>& values, std::int64_t i) {
          return static_cast<double>(values[static_cast<std::size_t>(i)]);
        };
        for (std::int64_t o = 0; o < kOut; ++o) {
          begin(at(y0, r * kOut + o));
          for (std::int64_t i = 0; i < kIn; ++i) add(at(m.x, r * kIn + i), static_cast<double>(w.row(o)[i]));
          for (std::int64_t k = 0; k < rank; ++k) add(at(m.down, r * kRank + k), static_cast<double>(b.row(o)[k]));
          for (const auto* y : {&dots, &packed, &by_count})
            ASSERT_NEAR(at(*y, r * kOut + o), sum, kTerms * kUnit * size) << "expert " << e << ", row " << r;
        }
        for (std::int64_t i = 0; i < kIn; ++i) {
          begin(at(dx0, r * kIn + i));
          for (std::int64_t o = 0; o < kOut; ++o) add(at(m.dy, r * kOut + o), static_cast<double>(w.row(o)[i]));
          for (std::int64_t k = 0; k < rank; ++k) add(at(m.down, r * kRank + k), static_cast<double>(a.row(k)[i]));
          ASSERT_NEAR(at(dx, r * kIn + i), sum, kTerms * kUnit * size) << "expert " << e << ", row " << r;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, SeveralStored, testing::ValuesIn(all_kinds()),
                         [](auto& kind) { return name_of(kind.param); });

TEST(TaskList, WeightsHaveTheGradientsOfEachAlone) {
  Experts m({DType::f32});
  each_isa([&] {
    expect_each_alone(kExperts * kOut * kIn, [&](std::int64_t first, std::int64_t count, std::vector<float>& dw) {
      auto product = [&](std::int64_t i) {
        const std::int64_t e = first + i;
        return WeightGradient{m.of(e, m.dy, kOut), m.of(e, m.x, kIn), m.low(e, dw, kOut, kIn),
                              e % 2 == 0 ? Write::add : Write::set};
      };
      gemm_tn({count, product});
    });
    // No rows: a gradient that is set is zero.
    auto dw = values(kOut * kIn, 9);
    gemm_tn(WeightGradient{m.of(0, m.dy, kOut), m.of(0, m.x, kIn), mat(dw, kOut, kIn), Write::set});
    EXPECT_EQ(dw, std::vector<float>(dw.size()));
  });
}

TEST(TaskList, AdaptersHaveTheBitsOfEachAlone) {
  Experts m({DType::f32});
  Arena arena(64 << 20);
  const auto size = static_cast<std::size_t>(m.rows() * kRank);
  auto check = [&] {
    expect_each_alone(size, [&](std::int64_t first, std::int64_t count, std::vector<float>& down) {
      auto adapter = [&](std::int64_t i) {
        const std::int64_t e = first + i;
        return AdapterDown{m.of(e, m.x, kIn), m.low(e, m.a, kRank, kIn), m.of(e, down, kRank)};
      };
      lora_down({count, adapter}, arena);
    });
    expect_each_alone(m.dy.size(), [&](std::int64_t first, std::int64_t count, std::vector<float>& y) {
      auto adapter = [&](std::int64_t i) {
        const std::int64_t e = first + i;
        return AdapterUp{m.of(e, m.down, kRank), m.low(e, m.b, kOut, kRank), 0.5f, m.of(e, y, kOut)};
      };
      lora_up({count, adapter});
    });
    for (bool trained : {false, true})  // ddown, and db after it
      expect_each_alone(size + m.b.size(), [&](std::int64_t first, std::int64_t count, std::vector<float>& out) {
        std::vector<float> ddown(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size)),
            db(out.begin() + static_cast<std::ptrdiff_t>(size), out.end());
        auto adapter = [&](std::int64_t i) {
          const std::int64_t e = first + i;
          return AdapterUpGradient{m.of(e, m.dy, kOut),        m.of(e, m.down, kRank),
                                   m.low(e, m.b, kOut, kRank), 0.5f,
                                   m.of(e, ddown, kRank),      trained ? m.low(e, db, kOut, kRank) : Mat{}};
        };
        lora_up_backward({count, adapter}, arena);
        std::ranges::copy(ddown, out.begin()), std::ranges::copy(db, out.begin() + static_cast<std::ptrdiff_t>(size));
      });
    expect_each_alone(m.x.size() + m.a.size(), [&](std::int64_t first, std::int64_t count, std::vector<float>& out) {
      std::vector<float> dx(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(m.x.size())),
          da(out.begin() + static_cast<std::ptrdiff_t>(m.x.size()), out.end());
      auto adapter = [&](std::int64_t i) {
        const std::int64_t e = first + i;
        return AdapterDownGradient{m.of(e, m.down, kRank), m.of(e, m.x, kIn), m.low(e, m.a, kRank, kIn),
                                   m.of(e, dx, kIn), m.low(e, da, kRank, kIn)};
      };
      lora_down_backward({count, adapter}, arena);
      std::ranges::copy(dx, out.begin());
      std::ranges::copy(da, out.begin() + static_cast<std::ptrdiff_t>(m.x.size()));
    });
  };
  each_isa([&] { each_precision(check); });
}

// However the rows are shared out: a dry run in which every expert has all of them takes at least as much memory.
TEST(TaskList, ADryRunBoundsTheMemoryOfAdapters) {
  constexpr std::int64_t kAll = 5000;
  auto dy = values(kAll * 16, 1), down = values(kAll * 2, 2), b = values(kExperts * 16 * 2, 3);
  std::vector<float> ddown(down.size()), db(b.size());
  auto used = [&](const std::vector<std::int64_t>& starts, bool dry) {
    Arena arena = dry ? Arena::measuring() : Arena(8 << 20);
    std::optional<DryRun> nothing;
    if (dry) nothing.emplace();
    auto adapter = [&](std::int64_t e) {
      const std::int64_t first = dry ? 0 : starts[static_cast<std::size_t>(e)],
                         rows = dry ? kAll : starts[static_cast<std::size_t>(e) + 1] - first;
      auto of = [&](std::vector<float>& m, std::int64_t cols) { return mat(m, kAll, cols).slice(first, rows); };
      return AdapterUpGradient{of(dy, 16), of(down, 2),  mat(b, kExperts * 16, 2).slice(e * 16, 16),
                               1,          of(ddown, 2), mat(db, kExperts * 16, 2).slice(e * 16, 16)};
    };
    lora_up_backward({kExperts, adapter}, arena);
    return arena.high_water();
  };
  const std::vector<std::int64_t> even{0, 625, 1250, 1875, 2500, 3125, 3750, 4375, 5000},
      one{0, 0, 0, 0, 5000, 5000, 5000, 5000, 5000}, odd{0, 1, 66, 131, 196, 261, 326, 391, 5000};
  each_precision([&] {
    const std::size_t bound = used({}, true);
    for (const auto& starts : {even, one, odd}) EXPECT_LE(used(starts, false), bound);
  });
}

}  // namespace
}  // namespace dml::kernels
