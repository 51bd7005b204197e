#include "core/random.h"

#include <cmath>
#include <numbers>

#include "core/parallel.h"

namespace dml {
namespace {

// Box and Muller's transform of two words.
float normal_of(std::uint32_t first, std::uint32_t second) {
  const double u = (static_cast<double>(first) + 1.0) * 0x1p-32;  // (0, 1]
  const double v = static_cast<double>(second) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

}  // namespace

double Random::uniform_double(std::uint64_t index) const {
  std::uint64_t bits = (std::uint64_t{word(2 * index)} << 32) | word(2 * index + 1);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

float Random::normal(std::uint64_t index) const { return normal_of(word(2 * index), word(2 * index + 1)); }

void Random::normals(std::uint64_t first, std::span<float> out, float scale) const {
  constexpr std::int64_t kNumbersOfTask = 1 << 14;
  parallel_ranges(std::ssize(out), kNumbersOfTask, [&](std::int64_t begin, std::int64_t end) {
    const std::uint64_t last = first + static_cast<std::uint64_t>(end);
    for (std::uint64_t index = first + static_cast<std::uint64_t>(begin); index < last;) {
      const std::array<std::uint32_t, 4> words = block(index / 2);  // of two numbers
      for (std::size_t half = index % 2; half < 2 && index < last; ++half, ++index)
        out[index - first] = normal_of(words[2 * half], words[2 * half + 1]) * scale;
    }
  });
}

std::uint64_t Random::below(std::uint64_t index, std::uint64_t bound) const {
  std::uint64_t bits = (std::uint64_t{word(2 * index)} << 32) | word(2 * index + 1);
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * bound) >> 64);
}

}  // namespace dml
