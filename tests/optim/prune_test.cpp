#include "optim/prune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dml {
namespace {

struct State {
  std::vector<float> mean, square;
  explicit State(std::size_t n, std::uint64_t seed) : mean(n), square(n, 1) {
    Random random(seed, Purpose::noise);
    // Rounded, so that many sizes are alike.
    for (std::size_t i = 0; i < n; ++i) mean[i] = std::round(8 * random.normal(i)) / 8;
  }
  StateSlice slice(std::size_t parameter, std::size_t first, std::size_t count) {
    return {parameter,
            static_cast<std::int64_t>(first),
            std::ssize(mean),
            {std::span(mean).subspan(first, count), std::span(square).subspan(first, count)}};
  }
};

// By sorting; torch.quantile's value lies between two neighbors.
std::vector<float> kept(const std::vector<float>& values, double ratio) {
  std::vector<float> sizes;
  for (float x : values) sizes.push_back(std::abs(x));
  std::ranges::sort(sizes);
  double place = ratio * static_cast<double>(sizes.size() - 1);
  auto low = static_cast<std::size_t>(place), high = std::min(low + 1, sizes.size() - 1);
  double threshold = sizes[low] + (place - static_cast<double>(low)) * (static_cast<double>(sizes[high]) - sizes[low]);
  std::vector<float> out;
  for (float x : values) out.push_back(std::abs(x) > threshold ? x : 0);
  return out;
}

TEST(Prune, ByMagnitudeKeepsWhatLiesAboveTheQuantile) {
  for (double ratio : {0.0, 0.25, 0.9, 0.999, 1.0})
    for (std::size_t n : {1, 2, 7, 300}) {
      State a(n, 1), b(2 * n, 2);
      std::vector<float> want_a = kept(a.mean, ratio), want_b = kept(b.mean, ratio);
      // The second parameter lies here in two slices, as on ranks that share it.
      std::vector<StateSlice> mine{a.slice(0, 0, n), b.slice(1, 0, n / 2), b.slice(1, n / 2, 2 * n - n / 2)};
      prune_by_magnitude(mine, 2, ratio, [](std::span<std::int64_t>) {});
      EXPECT_EQ(a.mean, want_a) << n << " " << ratio;
      EXPECT_EQ(b.mean, want_b) << n << " " << ratio;
    }
}

TEST(Prune, AllPlanesOfAnEntryGoTogether) {
  State a(1000, 3);
  std::vector<StateSlice> mine{a.slice(0, 0, 1000)};
  prune_by_magnitude(mine, 1, 0.75, [](std::span<std::int64_t>) {});
  for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(a.square[i], a.mean[i] == 0 ? 0 : 1) << i;
}

TEST(Prune, AtRandomDoesNotDependOnHowStateIsSliced) {
  State whole(4000, 4), cut(4000, 4);
  Random random(9, Purpose::adapter, 3);
  prune_at_random(whole.slice(0, 0, 4000), 0.7, random);
  prune_at_random(cut.slice(0, 0, 1234), 0.7, random);
  prune_at_random(cut.slice(0, 1234, 4000 - 1234), 0.7, random);
  EXPECT_EQ(whole.mean, cut.mean);
  EXPECT_EQ(whole.square, cut.square);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(whole.square, 0.0f)), 2800, 120);
}

}  // namespace
}  // namespace dml
