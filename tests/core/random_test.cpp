#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace dml {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors publish with the generator (Random123, kat_vectors, philox4x32 10).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, IsAFunctionOfItsAddressAlone) {
  Random a(7, Purpose::dropout, 3, 1), b(7, Purpose::dropout, 3, 1);
  EXPECT_EQ(a.word(1000), b.word(1000));
  EXPECT_EQ(a.word(5), b.block(1)[1]);
}

TEST(Random, StreamsDiffer) {
  std::set<std::uint64_t> seen;
  std::size_t streams = 0;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 32})
    for (auto purpose : {Purpose::init, Purpose::dropout, Purpose::shuffle, Purpose::sample})
      for (std::uint64_t a : {0ull, 1ull, 2ull, 1ull << 40})
        for (std::uint32_t b : {0u, 1u, 2u, 77u}) {
          Random r(seed, purpose, a, b);
          seen.insert(std::uint64_t{r.word(0)} << 32 | r.word(1));
          ++streams;
        }
  EXPECT_EQ(seen.size(), streams);
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0;
};
Moments moments(auto&& draw, int count) {
  std::vector<double> x;
  for (int i = 0; i < count; ++i) x.push_back(draw(static_cast<std::uint64_t>(i)));
  Moments m;
  for (double v : x) m.mean += v / count;
  for (double v : x) m.variance += (v - m.mean) * (v - m.mean) / count;
  for (double v : x) m.skew += std::pow((v - m.mean) / std::sqrt(m.variance), 3) / count;
  for (double v : x) m.kurtosis += std::pow((v - m.mean) / std::sqrt(m.variance), 4) / count;
  return m;
}
constexpr int kDraws = 200000;  // a standard error of the mean is 0.0022 for the normal; tolerances are five or more

TEST(Random, NormalsHaveTheMomentsOfANormal) {
  Random r(42, Purpose::init);
  Moments m = moments([&](std::uint64_t i) { return r.normal(i); }, kDraws);
  EXPECT_NEAR(m.mean, 0, 0.012);
  EXPECT_NEAR(m.variance, 1, 0.018);
  EXPECT_NEAR(m.skew, 0, 0.03);
  EXPECT_NEAR(m.kurtosis, 3, 0.06);
}

TEST(Random, NormalsOfARangeAreThoseOfTheirIndices) {
  const Random r(42, Purpose::init);
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{7}, (std::uint64_t{1} << 34) - 3})
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{6}, std::size_t{40'001}}) {
      std::vector<float> all(count);
      r.normals(first, all, 0.02f);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(all[i], r.normal(first + i) * 0.02f) << first << " + " << i;
    }
}

TEST(Random, UniformsFillTheUnitIntervalAndStayInside) {
  Random r(42, Purpose::sample);
  for (auto draw : {+[](const Random&x, std::uint64_t i) { return static_cast<double>(x.uniform(i)); },
                    +[](const Random&x, std::uint64_t i) { return x.uniform_double(i); }}) {
    double low = 1, high = 0;
    Moments m = moments(
        [&](std::uint64_t i) {
          double u = draw(r, i);
          low = std::min(low, u), high = std::max(high, u);
          return u;
        },
        kDraws);
    EXPECT_GE(low, 0);
    EXPECT_LT(high, 1);
    EXPECT_LT(low, 1e-4);
    EXPECT_GT(high, 1 - 1e-4);
    EXPECT_NEAR(m.mean, 0.5, 0.004);
    EXPECT_NEAR(m.variance, 1.0 / 12, 0.001);
  }
}

TEST(Random, BelowReachesEveryValueEquallyOften) {
  Random r(1, Purpose::shuffle);
  std::vector<int> counts(10);
  for (std::uint64_t i = 0; i < 100000; ++i) ++counts[r.below(i, 10)];
  double chi = 0;
  for (int c : counts) chi += (c - 10000.0) * (c - 10000.0) / 10000;
  EXPECT_LT(chi, 33.7);  // 9 degrees of freedom, one in ten thousand
  EXPECT_EQ(r.below(0, 1), 0u);
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_LT(r.below(i, 3000000000000000000ull), 3000000000000000000ull);
}

}  // namespace
}  // namespace dml
