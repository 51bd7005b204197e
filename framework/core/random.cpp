#include "core/random.h"

#include <cmath>
#include <numbers>

namespace dml {

double Random::uniform_double(std::uint64_t index) const {
  std::uint64_t bits = (std::uint64_t{word(2 * index)} << 32) | word(2 * index + 1);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

float Random::normal(std::uint64_t index) const {
  double u = (static_cast<double>(word(2 * index)) + 1.0) * 0x1p-32;  // (0, 1]
  double v = static_cast<double>(word(2 * index + 1)) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

std::uint64_t Random::below(std::uint64_t index, std::uint64_t bound) const {
  std::uint64_t bits = (std::uint64_t{word(2 * index)} << 32) | word(2 * index + 1);
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * bound) >> 64);
}

}  // namespace dml
