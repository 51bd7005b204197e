#include "optim/prune.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

#include "core/parallel.h"

namespace dml {
namespace {

// An integer with the order of the magnitudes of floats.
std::uint32_t size_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

template <class Keep>
void zero_unless(const StateSlice& slice, std::size_t first, std::size_t last, Keep keep) {
  for (std::size_t i = first; i < last; ++i)
    if (!keep(i))
      for (std::span<float> plane : slice.planes) plane[i] = 0;
}

}  // namespace

// Finds the entry at index k = ⌊ratio · (n − 1)⌋ of the sorted magnitudes, bit by bit from the highest: the largest t
// with at most k entries below it. torch.quantile is between this entry and the next, so `>` keeps the same entries.
void prune_by_magnitude(std::span<const StateSlice> mine, std::size_t count, double ratio, const SumOverRanks& sum) {
  std::vector<std::uint32_t> threshold(count, 0);
  std::vector<std::int64_t> below(count), here(mine.size());
  const auto slices = static_cast<std::int64_t>(mine.size());
  for (std::uint32_t bit = 1u << 30; bit > 0; bit >>= 1) {
    parallel_for(slices, [&](std::int64_t i) {
      const StateSlice& s = mine[static_cast<std::size_t>(i)];
      const std::uint32_t middle = threshold[s.parameter] | bit;
      here[static_cast<std::size_t>(i)] =
          std::ranges::count_if(s.planes[0], [&](float x) { return size_bits(x) < middle; });
    });
    std::ranges::fill(below, 0);
    for (std::size_t i = 0; i < mine.size(); ++i) below[mine[i].parameter] += here[i];
    sum(below);
    for (const StateSlice& s : mine) {
      const auto place = static_cast<std::int64_t>(std::floor(ratio * static_cast<double>(s.size - 1)));
      if (below[s.parameter] <= place) threshold[s.parameter] |= bit;
    }
  }
  parallel_for(slices, [&](std::int64_t i) {
    const StateSlice& s = mine[static_cast<std::size_t>(i)];
    zero_unless(s, 0, s.planes[0].size(),
                [&](std::size_t k) { return size_bits(s.planes[0][k]) > threshold[s.parameter]; });
  });
}

void prune_at_random(const StateSlice& s, double ratio, const Random& random) {
  parallel_ranges(std::ssize(s.planes[0]), 1 << 14, [&](std::int64_t first, std::int64_t last) {
    zero_unless(s, static_cast<std::size_t>(first), static_cast<std::size_t>(last),
                [&](std::size_t k) { return random.uniform(static_cast<std::uint64_t>(s.first) + k) >= ratio; });
  });
}

}  // namespace dml
