// Where threads run, on hosts that are made up and on this one.
#include "core/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <latch>
#include <set>
#include <vector>

#include "core/affinity.h"

namespace dml {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// 4 NUMA nodes with two L3 caches each, 64 cores; the processors of core c are 2c and 2c + 1.
constexpr const char* kLarge = "pack:2 numa:2 l3:2 core:8 pu:2";

Placement placed(const std::string& host, PlacementRequest request, const std::string& processors = "") {
  return place_threads(synthetic_topology(host, processors), request);
}

// first, first + step, …
std::vector<int> row(int first, int count, int step) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(first + i * step);
  return out;
}

TEST(Placement, FillsOneGroupAfterAnotherWithOneThreadACore) {
  const Placement p = placed(kLarge, {.threads = 64});
  ASSERT_THAT(p.processors, SizeIs(64));
  for (int t = 0; t < 64; ++t) EXPECT_EQ(p.processors[t], row(t / 8 * 16, 8, 2)) << t;
  EXPECT_THAT(p.text,
              testing::StartsWith("0–7 on L3 group 0, NUMA node 0; 8–15 on L3 group 1, NUMA node 0; 16–23 on L3 "
                                  "group 2, NUMA node 1; "));
  EXPECT_THAT(p.text, testing::EndsWith("56–63 on L3 group 7, NUMA node 3"));
}

TEST(Placement, NamesTheNodesOfItsThreads) {
  EXPECT_THAT(placed(kLarge, {.threads = 64}).nodes, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(placed(kLarge, {.threads = 16, .ranks = 4, .rank = 2}).nodes, ElementsAre(2));
  EXPECT_THAT(placed(kLarge, {.threads = 3, .affinity = ThreadAffinity::close}).nodes, ElementsAre(0));
  EXPECT_THAT(placed(kLarge, {.threads = 3}).nodes, ElementsAre(0, 1, 2, 3)) << "not bound";
  EXPECT_THAT(placed(kLarge, {.threads = 3}, "32-63").nodes, ElementsAre(1));
}

TEST(Placement, BindsNothingWithMoreThreadsThanCores) {
  const Placement p = placed(kLarge, {.threads = 128});
  EXPECT_THAT(p.processors, IsEmpty());
  EXPECT_EQ(p.text, "not bound: 128 threads on 64 cores");
  EXPECT_THAT(placed(kLarge, {.threads = 65, .affinity = ThreadAffinity::close}).processors, IsEmpty());
}

TEST(Placement, LeavesFewThreadsToTheSystemUnlessAsked) {
  EXPECT_EQ(placed(kLarge, {.threads = 3}).text, "not bound: 61 of 64 cores are left to others");
  const Placement three = placed(kLarge, {.threads = 3, .affinity = ThreadAffinity::close});
  EXPECT_THAT(three.processors, SizeIs(3));
  EXPECT_THAT(three.processors, Each(ElementsAre(0, 2, 4)));
  EXPECT_EQ(three.text, "0–2 on L3 group 0, NUMA node 0");
  const Placement ten = placed(kLarge, {.threads = 10, .affinity = ThreadAffinity::close});
  EXPECT_EQ(ten.processors[7], row(0, 8, 2));
  EXPECT_THAT(ten.processors[8], ElementsAre(16, 18));
  EXPECT_EQ(placed(kLarge, {.threads = 64, .affinity = ThreadAffinity::none}).text, "not bound: thread_affinity: none");
}

TEST(Placement, BindsNothingWhereAllCoresAreAlike) {
  for (const char* host : {"pack:1 numa:1 l3:1 core:16 pu:2", "pack:1 numa:1 core:16 pu:1", "core:1 pu:1"})
    for (auto affinity : {ThreadAffinity::automatic, ThreadAffinity::close}) {
      const int cores = synthetic_topology(host).cores;
      EXPECT_EQ(placed(host, {.threads = cores, .affinity = affinity}).text,
                "not bound: all cores share one L3 cache and NUMA node");
    }
  EXPECT_EQ(place_threads(Topology{}, {.threads = 1}).text, "not bound: the topology is unknown");
}

TEST(Placement, ANodeWithoutAKnownCacheIsAGroup) {
  const Placement p = placed("pack:2 numa:1 core:4 pu:1", {.threads = 8});
  EXPECT_EQ(p.text, "0–3 on core group 0, NUMA node 0; 4–7 on core group 1, NUMA node 1");
  EXPECT_EQ(p.processors[5], row(4, 4, 1));
}

// As with sub-NUMA clusters: an L3 cache of a socket, and two nodes of memory.
TEST(Placement, NodesBelowOneCacheAreGroups) {
  const Placement p = placed("pack:1 l3:1 group:2 numa:1 core:4 pu:1", {.threads = 8});
  EXPECT_EQ(p.text, "0–3 on L3 group 0, NUMA node 0; 4–7 on L3 group 1, NUMA node 1");
}

// Of a launcher, taskset or a container: whole groups, parts of groups, one hardware thread of a core.
TEST(Placement, StaysWithinTheProcessorsOfTheProcess) {
  const Placement node = placed(kLarge, {.threads = 16}, "32-63");
  EXPECT_EQ(node.text, "0–7 on L3 group 0, NUMA node 1; 8–15 on L3 group 1, NUMA node 1");
  EXPECT_EQ(node.processors[0], row(32, 8, 2));
  EXPECT_EQ(node.processors[15], row(48, 8, 2));

  const Placement uneven = placed(kLarge, {.threads = 5}, "11-15,17,19");
  EXPECT_THAT(uneven.processors, ElementsAre(ElementsAre(11, 12, 14), ElementsAre(11, 12, 14), ElementsAre(11, 12, 14),
                                             ElementsAre(17, 19), ElementsAre(17, 19)));
  EXPECT_EQ(uneven.text, "0–2 on L3 group 0, NUMA node 0; 3–4 on L3 group 1, NUMA node 0");

  EXPECT_THAT(placed(kLarge, {.threads = 8}, "0-15").text, HasSubstr("all cores share one L3 cache"));
  EXPECT_EQ(placed(kLarge, {.threads = 16}, "0-15").text, "not bound: all cores share one L3 cache and NUMA node");
}

TEST(Placement, RanksOnTheSameProcessorsTakeCoresOfTheirOwn) {
  for (int ranks : {1, 2, 3, 4, 5, 8, 16, 24, 64}) {
    std::set<int> cores;
    for (int rank = 0; rank < ranks; ++rank) {
      const int threads = 64 / ranks;
      const Placement p = placed(kLarge, {.threads = threads, .ranks = ranks, .rank = rank});
      ASSERT_THAT(p.processors, SizeIs(threads));
      std::set<int> own;
      for (auto& processors : p.processors) own.insert(processors.begin(), processors.end());
      EXPECT_THAT(own, SizeIs(threads)) << "a hardware thread of each core";
      for (int p1 : own) EXPECT_TRUE(cores.insert(p1 / 2).second) << "core " << p1 / 2 << " of rank " << rank;
    }
  }
  EXPECT_EQ(placed(kLarge, {.threads = 4, .ranks = 16, .rank = 3}).text, "0–3 on L3 group 1, NUMA node 0");
  EXPECT_EQ(placed(kLarge, {.threads = 8, .ranks = 9, .rank = 3}).text, "not bound: 72 threads on 64 cores");
}

TEST(Placement, BindsNothingUnderAQuota) {
  EXPECT_EQ(placed(kLarge, {.threads = 6, .quota = 6}).text, "not bound: processor time is limited to 6 of 64 cores");
  EXPECT_THAT(placed(kLarge, {.threads = 64, .quota = 64}).processors, SizeIs(64));
}

std::vector<int> affinity_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> out;
  for (int p = 0; p < CPU_SETSIZE; ++p)
    if (CPU_ISSET(p, &set)) out.push_back(p);
  return out;
}

// What each of `count` threads of the pool may run on; every tile waits until all threads have one.
std::vector<std::vector<int>> affinities(int count) {
  std::vector<std::vector<int>> out(static_cast<std::size_t>(count));
  std::latch all(count);
  parallel_for(count, [&](std::int64_t i) {
    all.arrive_and_wait();
    out[static_cast<std::size_t>(i)] = affinity_of_this_thread();
  });
  return out;
}

TEST(Placement, HoldsForThePoolsThreads) {
  const int first = process_processors().front(), last = process_processors().back();
  const ThreadProcessors where{{first}, {last}, {first, last}};
  set_threads(3, where);
  std::vector<int> both{first};
  if (last != first) both.push_back(last);
  EXPECT_THAT(affinities(3), ElementsAre(ElementsAre(first), ElementsAre(last), both));
  EXPECT_EQ(process_processors(),
            affinity_of_this_thread().size() > 1 ? affinity_of_this_thread() : process_processors());
  EXPECT_GE(available_processors(), 1);
  set_threads(3);
  EXPECT_THAT(affinities(3), Each(process_processors())) << "bound no longer";
}

TEST(Placement, OnThisHostIsAsPlanned) {
  const int count = available_cores();
  const Placement planned = place_threads(this_topology(), {.threads = count, .quota = available_cores()});
  set_placed_threads(count);
  if (planned.processors.empty()) EXPECT_THAT(affinities(count), Each(process_processors())) << planned.text;
  else EXPECT_EQ(affinities(count), planned.processors) << planned.text;
  set_threads(available_cores());
}

TEST(Placement, ChangesNoCountOfCores) {
  const int cores = available_cores(), processors = available_processors();
  const Topology before = this_topology();
  set_threads(2, {{process_processors().front()}, {process_processors().front()}});
  EXPECT_EQ(available_cores(), cores);
  EXPECT_EQ(available_processors(), processors);
  EXPECT_EQ(this_topology().text(), before.text());
  set_threads(available_cores());
}

// Sums of floats whose order is fixed by the tiles, so whatever runs where must not matter.
TEST(Placement, ChangesNoBit) {
  const int first = process_processors().front(), last = process_processors().back();
  const auto sums = [](ThreadProcessors where) {
    set_threads(3, std::move(where));
    std::vector<float> out(64);
    parallel_for(64, [&](std::int64_t i) {
      for (int k = 1; k < 2000; ++k) out[static_cast<std::size_t>(i)] += 1.0f / static_cast<float>(k + i);
    });
    return out;
  };
  const std::vector<float> free = sums({});
  EXPECT_EQ(sums({{first}, {first}, {first}}), free);
  EXPECT_EQ(sums({{last}, {first}, {first, last}}), free);
  set_threads(available_cores());
}

}  // namespace
}  // namespace dml
