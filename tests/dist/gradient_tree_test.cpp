#include "dist/gradient_tree.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "core/random.h"

namespace dml {
namespace {

// A leaf's gradient with a wide range of magnitudes, so that another order of additions changes its bits.
std::vector<float> leaf(std::int64_t index, std::size_t size) {
  Random random(7, Purpose::noise, static_cast<std::uint64_t>(index));
  std::vector<float> x(size);
  for (std::size_t i = 0; i < size; ++i)
    x[i] = random.normal(i) * static_cast<float>(1 << (random.word(i + size) % 12));
  return x;
}

// The definition of the tree, implemented literally.
std::vector<float> node_value(int level, std::int64_t index, std::int64_t total, std::size_t size) {
  if (level == 0) return leaf(index, size);
  std::vector<float> left = node_value(level - 1, 2 * index, total, size);
  if ((2 * index + 1) << (level - 1) >= total) return left;
  std::vector<float> right = node_value(level - 1, 2 * index + 1, total, size);
  for (std::size_t i = 0; i < size; ++i) left[i] = left[i] + right[i];
  return left;
}

std::vector<float> plain_tree(std::int64_t total, std::size_t size) {
  int level = 0;
  while ((std::int64_t{1} << level) < total) ++level;
  return node_value(level, 0, total, size);
}

// Computes a rank's nodes and returns their values.
std::vector<std::vector<float>> run(const TreeSchedule& schedule, MicroBatches share, std::size_t size) {
  std::vector<std::vector<float>> slots(static_cast<std::size_t>(schedule.slots));
  for (std::size_t j = 0; j < schedule.slot.size(); ++j) {
    auto top = static_cast<std::size_t>(schedule.slot[j]);
    slots[top] = leaf(share.first + static_cast<std::int64_t>(j), size);
    for (int n = schedule.additions[j]; n > 0; --n, --top)
      add_floats(slots[top - 1].data(), slots[top].data(), static_cast<std::int64_t>(size));
  }
  slots.resize(schedule.nodes.size());
  return slots;
}

TEST(GradientTree, AnyCutIntoContiguousSharesGivesTheBitsOfThePlainTree) {
  constexpr std::size_t kSize = 32;
  Random random(11, Purpose::noise);
  std::uint64_t draw = 0;
  for (int trial = 0; trial < 300; ++trial) {
    auto total = static_cast<std::int64_t>(1 + random.below(draw++, trial < 200 ? 20 : 120));
    int ranks = static_cast<int>(1 + random.below(draw++, 8));
    std::vector<std::int64_t> cuts{0, total};
    for (int r = 1; r < ranks; ++r)
      cuts.push_back(static_cast<std::int64_t>(random.below(draw++, static_cast<std::uint64_t>(total + 1))));
    std::sort(cuts.begin(), cuts.end());

    std::vector<TreeNode> nodes;
    std::vector<std::vector<float>> values;
    for (int r = 0; r < ranks; ++r) {
      MicroBatches share{cuts[static_cast<std::size_t>(r)],
                         cuts[static_cast<std::size_t>(r) + 1] - cuts[static_cast<std::size_t>(r)], 1};
      TreeSchedule schedule = tree_schedule(share, total);
      for (auto& value : run(schedule, share, kSize)) values.push_back(std::move(value));
      nodes.insert(nodes.end(), schedule.nodes.begin(), schedule.nodes.end());
    }
    std::vector<float*> parts;
    for (auto& value : values) parts.push_back(value.data());
    std::vector<float> sum(kSize), expected = plain_tree(total, kSize);
    add_parts(parts, additions_to_root(nodes, total), kSize, sum.data());
    ASSERT_EQ(std::memcmp(sum.data(), expected.data(), kSize * sizeof(float)), 0) << total << " over " << ranks;
  }
}

TEST(GradientTree, EqualPowersOfTwoNeedOneNodePerRankAndLogarithmicallyManyBuffers) {
  for (int ranks : {1, 2, 4, 8})
    for (std::int64_t each : {1, 2, 4, 8, 16})
      for (int r = 0; r < ranks; ++r) {
        TreeSchedule schedule = tree_schedule(contiguous_share(ranks * each, r, ranks), ranks * each);
        EXPECT_EQ(schedule.nodes.size(), 1u);
        EXPECT_EQ(1 << (schedule.slots - 1), each);
      }
}

TEST(GradientTree, SharesCoverEveryMicroBatchOnce) {
  for (std::int64_t total : {0, 1, 5, 8, 17})
    for (int ranks : {1, 2, 3, 5, 8})
      for (auto share : {contiguous_share, interleaved_share}) {
        std::vector<int> seen(static_cast<std::size_t>(total));
        for (int r = 0; r < ranks; ++r) {
          MicroBatches mine = share(total, r, ranks);
          for (std::int64_t j = 0; j < mine.count; ++j)
            ++seen.at(static_cast<std::size_t>(mine.first + j * mine.stride));
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), total);
      }
}

TEST(GradientTree, AnotherOrderChangesTheBits) {
  std::vector<float> in_order(64), tree = plain_tree(8, 64);
  for (std::int64_t i = 0; i < 8; ++i) add_floats(in_order.data(), leaf(i, 64).data(), 64);
  EXPECT_NE(in_order, tree);
}

TEST(GradientTree, NodesThatLeaveAGapAreRefused) {
  std::vector<TreeNode> nodes{{0, 0}, {1, 1}};
  EXPECT_THROW(additions_to_root(nodes, 4), Error);
}

}  // namespace
}  // namespace dml
