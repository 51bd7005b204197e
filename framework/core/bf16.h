// bfloat16 and half precision as storage types: conversions only; arithmetic is in float32 everywhere.
#pragma once

#include <bit>
#include <cstdint>

namespace dml {

struct bf16 {
  std::uint16_t bits;
};
struct f16 {
  std::uint16_t bits;
};

inline float to_float(bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

/// Rounds to nearest even; NaN stays NaN.
inline bf16 to_bf16(float x) {
  auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

inline float to_float(f16 x) {
  std::uint32_t sign = (x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31u, fraction = x.bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  float tiny = static_cast<float>(fraction) * 0x1p-24f;  // subnormal half
  return sign ? -tiny : tiny;
}

/// Rounds to nearest even; overflow becomes infinity.
inline f16 to_f16(float x) {
  auto u = std::bit_cast<std::uint32_t>(x);
  std::uint32_t sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (a >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (a < 0x38800000u) {  // subnormal: the addition rounds
    float shifted = std::bit_cast<float>(a) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  a += 0xc8000fffu + ((a >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | (a >> 13))};
}

}  // namespace dml
