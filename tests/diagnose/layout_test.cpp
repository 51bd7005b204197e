// The layout of a run as a function of host, memory and run.
#include "diagnose/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kGigabyte = std::size_t{1} << 30;

// LoRA on 110 million parameters, on cores of 150 GFLOP/s.
RunShape adapter_run(std::int64_t micro_batches, double tokens) {
  RunShape run;
  run.steps = 1000;
  run.micro_batches = micro_batches;
  run.tokens = tokens;
  run.width = 768;
  run.operations = 4 * 110e6;
  run.rate = 150e9;
  run.exchanged = 11e6;
  run.memory = [](std::int64_t ranks) { return kGigabyte * static_cast<std::size_t>(1 + ranks); };
  return run;
}

RunShape full_run(std::int64_t micro_batches, double tokens) {
  RunShape run = adapter_run(micro_batches, tokens);
  run.operations = 6 * 110e6;
  run.exchanged = 540e6;
  run.memory = [](std::int64_t ranks) { return 2 * kGigabyte * static_cast<std::size_t>(ranks); };
  return run;
}

Topology plain_host(int cores) {
  Topology host;
  host.sockets = host.numa_nodes = host.cache_groups = 1;
  host.cores = host.processors = cores;
  return host;
}

RankLayout chosen(const Topology& host, const RunShape& run, std::size_t room = 1000 * kGigabyte) {
  return choose_layout(host, room, run).layout;
}

TEST(RankLayout, UsesAllCoresAndHasMicroBatchesForAllRanks) {
  EXPECT_THAT(layouts_for(12, 100), ElementsAre(RankLayout{1, 12}, RankLayout{2, 6}, RankLayout{3, 4}, RankLayout{4, 3},
                                                RankLayout{6, 2}, RankLayout{12, 1}));
  EXPECT_THAT(layouts_for(16, 5), ElementsAre(RankLayout{1, 16}, RankLayout{2, 8}, RankLayout{4, 4}));
  EXPECT_THAT(layouts_for(1, 8), ElementsAre(RankLayout{1, 1}));
}

TEST(RankLayout, GivesSmallMicroBatchesToRanksOfFewThreads) {
  const RunShape run = adapter_run(16, 256);
  EXPECT_EQ(chosen(plain_host(1), run), (RankLayout{1, 1}));
  EXPECT_EQ(chosen(plain_host(4), run), (RankLayout{4, 1}));
  EXPECT_EQ(chosen(plain_host(16), run), (RankLayout{16, 1}));
  EXPECT_EQ(chosen(plain_host(64), run), (RankLayout{16, 4}));
  EXPECT_EQ(chosen(plain_host(64), adapter_run(64, 256)), (RankLayout{32, 2}));
  const LayoutChoice choice = choose_layout(plain_host(16), 0, run);
  EXPECT_EQ(choice.layout.text(), "16 ranks × 1 thread");
  EXPECT_EQ(choice.why, "micro-batches of 256 tokens are small for 16 threads");
}

TEST(RankLayout, OfFullTrainingHasFewRanksThatExchangeAllGradients) {
  EXPECT_EQ(chosen(plain_host(16), full_run(16, 256)), (RankLayout{2, 8}));
}

TEST(RankLayout, LeavesLargeMicroBatchesToOneRank) {
  const LayoutChoice choice = choose_layout(plain_host(16), 0, adapter_run(16, 8192));
  EXPECT_EQ(choice.layout, (RankLayout{1, 16}));
  EXPECT_EQ(choice.why, "more ranks would not be faster");
}

TEST(RankLayout, NeedsSeveralMicroBatches) {
  const LayoutChoice choice = choose_layout(plain_host(64), 0, adapter_run(1, 256));
  EXPECT_EQ(choice.layout, (RankLayout{1, 64}));
  EXPECT_EQ(choice.why, "a step has one micro-batch");
  EXPECT_EQ(chosen(plain_host(64), adapter_run(2, 256)), (RankLayout{2, 32}));
}

TEST(RankLayout, KeepsRanksInTheirNumaNodes) {
  const Topology two = synthetic_topology("pack:2 numa:1 l3:1 core:32 pu:2");  // hardware threads are no cores
  const LayoutChoice choice = choose_layout(two, 0, adapter_run(16, 100'000));
  EXPECT_EQ(choice.layout, (RankLayout{2, 32}));
  EXPECT_EQ(choice.why, "each in a NUMA node of 2");
  EXPECT_EQ(chosen(synthetic_topology("pack:1 numa:1 l3:1 core:64 pu:2"), adapter_run(16, 100'000)),
            (RankLayout{1, 64}));
  // 3 × 4 of 12 cores in two nodes of 6: the second of these ranks would lie in both.
  const Topology six = synthetic_topology("pack:2 numa:1 l3:1 core:6 pu:1");
  EXPECT_LT(step_seconds(six, adapter_run(6, 4096), {6, 2}), step_seconds(six, adapter_run(6, 4096), {3, 4}));
}

TEST(RankLayout, StartsNoMoreRanksThanTheMemoryHolds) {
  const RunShape run = adapter_run(16, 256);  // one gigabyte in common, and one a rank
  EXPECT_EQ(chosen(plain_host(16), run, 8 * kGigabyte), (RankLayout{4, 4}));
  EXPECT_EQ(chosen(plain_host(16), run, 0), (RankLayout{16, 1})) << "unknown";
  const LayoutChoice none = choose_layout(plain_host(16), 3 * kGigabyte, run);
  EXPECT_EQ(none.layout, (RankLayout{1, 16}));
  EXPECT_EQ(none.why, "there is no memory for more ranks");
}

TEST(RankLayout, StartsNoRanksThatCannotTrainTheRecipe) {
  RunShape run = adapter_run(16, 256);
  run.memory = [](std::int64_t) { return std::nullopt; };
  EXPECT_EQ(chosen(plain_host(16), run), (RankLayout{1, 16}));
}

TEST(RankLayout, StartsNoRanksForARunOfSeconds) {
  RunShape run = adapter_run(16, 256);
  run.steps = 3;
  const LayoutChoice choice = choose_layout(plain_host(16), 0, run);
  EXPECT_EQ(choice.layout, (RankLayout{1, 16}));
  EXPECT_THAT(choice.why, HasSubstr("too short"));
}

}  // namespace
}  // namespace dml
