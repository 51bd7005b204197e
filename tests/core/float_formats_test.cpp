// Conversions against the definitions of the formats, over all 65536 patterns.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/bf16.h"
#include "core/random.h"

namespace dml {
namespace {

// A format with `fraction` bits after the point and a bias, by its definition: (−1)^s · 1.f · 2^(e − bias).
double value_of(std::uint32_t bits, int fraction, int exponent_bits, int bias) {
  std::uint32_t f = bits & ((1u << fraction) - 1), e = (bits >> fraction) & ((1u << exponent_bits) - 1);
  double sign = bits >> 15 ? -1 : 1, part = std::ldexp(f, -fraction);
  if (e == (1u << exponent_bits) - 1)
    return f ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  return sign * (e == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1 + part, static_cast<int>(e) - bias));
}
double value_of(f16 x) { return value_of(x.bits, 10, 5, 15); }
double value_of(bf16 x) { return value_of(x.bits, 7, 8, 127); }

template <class T>
T rounded(float x);
template <>
f16 rounded<f16>(float x) {
  return to_f16(x);
}
template <>
bf16 rounded<bf16>(float x) {
  return to_bf16(x);
}

template <class T>
void check_every_pattern() {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    T x{static_cast<std::uint16_t>(bits)};
    double want = value_of(x);
    float got = to_float(x);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      ASSERT_TRUE(std::isnan(to_float(rounded<T>(got)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), want) << bits;
    ASSERT_EQ(std::signbit(got), std::signbit(want)) << bits;
    ASSERT_EQ(rounded<T>(got).bits, bits);
  }
}

TEST(Bf16, EveryPatternHasItsValueAndComesBack) { check_every_pattern<bf16>(); }
TEST(F16, EveryPatternHasItsValueAndComesBack) { check_every_pattern<f16>(); }

// Between two neighbors of the format the middle goes to the even one and everything else to the nearer one.
template <class T>
void check_rounding_between_neighbors(std::uint32_t largest) {
  for (std::uint32_t bits = 0; bits < largest; ++bits) {
    T low{static_cast<std::uint16_t>(bits)}, high{static_cast<std::uint16_t>(bits + 1)}, even = bits % 2 ? high : low;
    double middle = (value_of(low) + value_of(high)) / 2;
    float exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle);
    for (float sign : {1.f, -1.f}) {
      std::uint32_t s = sign < 0 ? 0x8000u : 0;
      ASSERT_EQ(rounded<T>(sign * exact).bits, even.bits | s) << bits;
      ASSERT_EQ(rounded<T>(sign * std::nextafter(exact, 0.f)).bits, low.bits | s) << bits;
      ASSERT_EQ(rounded<T>(sign * std::nextafter(exact, std::numeric_limits<float>::max())).bits, high.bits | s)
          << bits;
    }
  }
}

TEST(Bf16, RoundsToNearestEven) { check_rounding_between_neighbors<bf16>(0x7f7f); }
TEST(F16, RoundsToNearestEven) { check_rounding_between_neighbors<f16>(0x7bff); }

TEST(F16, OverflowsToInfinityFromHalfAStepAboveTheLargest) {
  EXPECT_EQ(to_f16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.f).bits, 0x7c00);
  EXPECT_EQ(to_f16(-1e30f).bits, 0xfc00);
  EXPECT_EQ(to_f16(std::numeric_limits<float>::infinity()).bits, 0x7c00);
  EXPECT_EQ(to_f16(1e-30f).bits, 0);
}

TEST(Bf16, OverflowsToInfinity) {
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bf16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
}

}  // namespace
}  // namespace dml
