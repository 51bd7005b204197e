#include "core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/affinity.h"

namespace dml {
namespace {

class Threads : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_threads(GetParam()); }
  void TearDown() override { set_threads(available_cores()); }
};

TEST_P(Threads, EveryTileRunsOnce) {
  for (std::int64_t count : {0, 1, 2, 3, 17, 1000}) {
    std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
    parallel_for(count, [&](std::int64_t i) { ++times[static_cast<std::size_t>(i)]; });
    for (auto& t : times) ASSERT_EQ(t, 1);
  }
}

TEST_P(Threads, ManyConsecutiveCallsRunEveryTile) {
  std::atomic<std::int64_t> sum{0};
  for (int call = 0; call < 3000; ++call) parallel_for(5, [&](std::int64_t i) { sum += i; });
  EXPECT_EQ(sum, 30000);
}

// Threads that wait longer than they spin are parked: workers for the next call, the caller for a worker's tile. Every
// tile waits until all threads have one.
TEST_P(Threads, ParkedOnesAreWoken) {
  constexpr std::chrono::milliseconds kLong{50};
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(kLong);
    std::latch all(GetParam());
    std::atomic<int> ran{0};
    parallel_for(GetParam(), [&, caller = std::this_thread::get_id()](std::int64_t) {
      all.arrive_and_wait();
      if (std::this_thread::get_id() != caller) std::this_thread::sleep_for(kLong);
      ++ran;
    });
    EXPECT_EQ(ran, GetParam());
  }
}

// Threads get the same tiles in every call, which are still in their caches. Every tile waits until all threads have
// one.
TEST_P(Threads, StartWithTheSameShareInEveryCall) {
  std::vector<std::thread::id> first, again;
  for (auto* who : {&first, &again}) {
    who->resize(static_cast<std::size_t>(GetParam()));
    std::latch all(GetParam());
    parallel_for(GetParam(), [&](std::int64_t i) {
      all.arrive_and_wait();
      (*who)[static_cast<std::size_t>(i)] = std::this_thread::get_id();
    });
  }
  EXPECT_EQ(first, again);
  EXPECT_EQ(first[0], std::this_thread::get_id());
}

TEST_P(Threads, StealFromTheSharesOfOthers) {
  if (GetParam() == 1) return;
  constexpr int kTiles = 40;
  std::atomic<int> ran{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  parallel_for(kTiles, [&](std::int64_t i) {
    while (i == 0 && ran < kTiles - 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (i == 0) {
      EXPECT_EQ(ran, kTiles - 1);
    }
    ++ran;
  });
  EXPECT_EQ(ran, kTiles);
}

TEST_P(Threads, RangesCoverEverythingWithoutOverlap) {
  for (std::int64_t size : {0, 1, 9, 10, 11, 100}) {
    std::vector<std::atomic<int>> times(static_cast<std::size_t>(size));
    parallel_ranges(size, 10, [&](std::int64_t first, std::int64_t last) {
      EXPECT_EQ(first % 10, 0);
      EXPECT_LE(last - first, 10);
      for (std::int64_t i = first; i < last; ++i) ++times[static_cast<std::size_t>(i)];
    });
    for (auto& t : times) ASSERT_EQ(t, 1);
  }
}

TEST_P(Threads, AnExceptionIsRethrownAndTheNextCallWorks) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(parallel_for(50,
                              [](std::int64_t i) {
                                if (i % 7 == 3) throw std::runtime_error("tile");
                              }),
                 std::runtime_error);
    std::atomic<int> ran{0};
    parallel_for(50, [&](std::int64_t) { ++ran; });
    EXPECT_EQ(ran, 50);
  }
}

TEST_P(Threads, NestedCallsRunEveryTile) {
  std::atomic<int> ran{0};
  parallel_for(
      8, [&](std::int64_t) { parallel_for(8, [&](std::int64_t) { parallel_for(2, [&](std::int64_t) { ++ran; }); }); });
  EXPECT_EQ(ran, 128);
}

TEST_P(Threads, CallsFromSeveralThreadsAtOnceAllFinish) {
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int call = 0; call < 300; ++call) parallel_for(10, [&](std::int64_t i) { sum += i; });
    });
  for (auto& c : callers) c.join();
  EXPECT_EQ(sum, 4 * 300 * 45);
}

TEST_P(Threads, ADryRunRunsNoTile) {
  {
    DryRun dry;
    DryRun deeper;
    EXPECT_TRUE(dry_run());
    parallel_for(100, [](std::int64_t) { FAIL(); });
    // It holds for the thread that made it, not for others.
    std::atomic<int> ran{0};
    std::thread([&] { parallel_for(3, [&](std::int64_t) { ++ran; }); }).join();
    EXPECT_EQ(ran, 3);
  }
  EXPECT_FALSE(dry_run());
  std::atomic<int> ran{0};
  parallel_for(3, [&](std::int64_t) { ++ran; });
  EXPECT_EQ(ran, 3);
}

INSTANTIATE_TEST_SUITE_P(Counts, Threads, testing::Values(1, 2, 5), testing::PrintToStringParamName());

TEST(ThreadCount, IsTheRequestedNumberAndAtLeastOne) {
  set_threads(3);
  EXPECT_EQ(threads(), 3);
  set_threads(0);
  EXPECT_EQ(threads(), 1);
  set_threads(available_cores());
  EXPECT_GE(threads(), 1);
}

TEST(ThreadCount, MayChangeBetweenCalls) {
  std::atomic<int> ran{0};
  for (int n : {1, 4, 2, 3, 1}) {
    set_threads(n);
    parallel_for(10, [&](std::int64_t) { ++ran; });
  }
  set_threads(available_cores());
  EXPECT_EQ(ran, 50);
}

}  // namespace
}  // namespace dml
