#include "core/virtual_threads.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/parallel.h"
#include "core/profile.h"

namespace dml {
namespace {

TEST(Makespan, IsTheTimeOfTheBusiestThread) {
  const std::vector<double> alike(8, 1.0);
  EXPECT_EQ(makespan(alike, 1), 8);
  EXPECT_EQ(makespan(alike, 4), 2);
  EXPECT_EQ(makespan(alike, 3), 3);
  EXPECT_EQ(makespan(alike, 100), 1);
  EXPECT_EQ(makespan({}, 4), 0);
}

TEST(Makespan, LetsFinishedThreadsStealWork) {
  // Two runs: {5, 1} and {1, 1}. The second thread is done at 2 and takes the 1 that waits after the 5.
  EXPECT_EQ(makespan(std::vector<double>{5, 1, 1, 1}, 2), 5);
  // {1, 1} and {5, 1}: the first thread takes what waits after the 5.
  EXPECT_EQ(makespan(std::vector<double>{1, 1, 5, 1}, 2), 5);
}

// A tile that takes some processor time.
void spin(double seconds) {
  for (const double until = thread_seconds() + seconds; thread_seconds() < until;) {
  }
}

TEST(VirtualThreads, DivideWorkByTheirNumberAndRunItHere) {
  const int before = threads();
  {
    VirtualThreads virtual_threads(64);
    EXPECT_EQ(threads(), 64);
    std::vector<int> seen;  // no lock: one thread runs all tiles
    const double saved = virtual_seconds_saved();
    parallel_for(8, [&](std::int64_t i) {
      seen.push_back(static_cast<int>(i));
      parallel_for(4, [](std::int64_t) {});  // nested: part of its tile
      spin(1e-3);
    });
    EXPECT_EQ(seen.size(), 8u);
    EXPECT_GE(virtual_seconds_saved() - saved, 6.9e-3);  // eight milliseconds of work in a span of little more than one
  }
  EXPECT_EQ(threads(), before);
}

TEST(VirtualThreads, RunTheFirstCallsOfAKindAndCountTheRest) {
  const bool before = std::exchange(profiling, true);
  reset_profile();
  int run = 0;
  {
    VirtualThreads virtual_threads(4, 2);
    ProfileScope scope("layer", 1);
    for (int layer = 0; layer < 10; ++layer)
      parallel_for(4, [&](std::int64_t) {
        ++run;
        spin(1e-3);
      });
    EXPECT_EQ(run, 8);
    ProfileScope other("layer", 2);
    for (int layer = 0; layer < 2; ++layer) parallel_for(4, [&](std::int64_t) { ++run; });
    EXPECT_EQ(run, 16);  // another kind
  }
  const std::vector<ProfileRow> rows = profile_rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_GE(rows[0].seconds, 40e-3);
  EXPECT_GE(rows[0].saved, 29e-3);  // each call of four milliseconds takes one
  EXPECT_LE(rows[0].saved, rows[0].seconds * 0.76);
  profiling = before;
}

TEST(VirtualThreads, CountAllCallsOfAKindWithTheShortestTimes) {
  const bool before = std::exchange(profiling, true);
  reset_profile();
  {
    VirtualThreads virtual_threads(4, 2);
    ProfileScope scope("layer", 1);
    double seconds = 20e-3;  // of each tile in the first call, as if other programs slowed it down
    for (int layer = 0; layer < 3; ++layer) {
      parallel_for(4, [&](std::int64_t) { spin(seconds); });
      seconds = 1e-3;
    }
  }
  const std::vector<ProfileRow> rows = profile_rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_GE(rows[0].seconds, 12e-3);
  EXPECT_LE(rows[0].seconds, 60e-3);  // the measured times add up to 88e-3
  EXPECT_GE(rows[0].saved, 9e-3 * 0.99);
  profiling = before;
}

TEST(VirtualThreads, ProfileSaysWhatEachOperationSaves) {
  const bool before = std::exchange(profiling, true);
  reset_profile();
  {
    VirtualThreads virtual_threads(2);
    ProfileScope outer("outer");
    spin(1e-3);
    ProfileScope inner("inner");
    parallel_for(2, [](std::int64_t) { spin(2e-3); });
  }
  for (const ProfileRow& row : profile_rows()) {
    if (row.name == "outer") {
      EXPECT_EQ(row.saved, 0);
    }
    if (row.name == "inner") {
      EXPECT_GE(row.seconds, 4e-3);
      EXPECT_GE(row.saved, 1.9e-3);
      EXPECT_LE(row.saved, row.seconds - 1.9e-3);
    }
  }
  profiling = before;
}

}  // namespace
}  // namespace dml
