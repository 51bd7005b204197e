#include "train/background.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace dml {
namespace {

TEST(BackgroundWork, RunsItsJobsInOrderWhileTheCallerContinues) {
  std::atomic<bool> may_end = false;
  std::string order;
  BackgroundWork work;
  work.start({[&](auto&) { order += 'a'; },
              [&](auto&) {
                while (!may_end) std::this_thread::yield();
              },
              [&](auto&) { order += 'b'; }});
  EXPECT_TRUE(work.busy());
  may_end = true;
  work.wait();
  EXPECT_FALSE(work.busy());
  EXPECT_EQ(order, "ab");
  work.start({[&](auto&) { order += 'c'; }});
  work.wait();
  EXPECT_EQ(order, "abc");
}

TEST(BackgroundWork, RethrowsAJobsExceptionOnceAndDropsTheRest) {
  bool reached = false;
  BackgroundWork work;
  work.start({[](auto&) -> void { throw std::runtime_error("disk full"); }, [&](auto&) { reached = true; }});
  EXPECT_THROW(work.wait(), std::runtime_error);
  EXPECT_FALSE(reached);
  EXPECT_NO_THROW(work.wait());
}

TEST(BackgroundWork, StopsTheRunningJobAndDropsTheRest) {
  bool reached = false;
  std::atomic<bool> begun = false;
  {
    BackgroundWork work;
    work.start({[&](const std::stop_token& stop) {
                  begun = true;
                  while (!stop.stop_requested()) std::this_thread::yield();
                },
                [&](auto&) { reached = true; }});
    while (!begun) std::this_thread::yield();
  }
  EXPECT_FALSE(reached);
}

TEST(Snapshot, KeepsCopiesOfValues) {
  Snapshot snapshot;
  for (float x : {1.0f, 2.0f}) {
    std::vector<float> one(100, x), two(70000, x + 0.5f);
    snapshot.begin(Snapshot::bytes(one.size() * sizeof(float)) + Snapshot::bytes(two.size() * sizeof(float)));
    auto a = snapshot.copy(std::span(one)), b = snapshot.copy(std::span(two));
    one[3] = two[69999] = 9;
    EXPECT_EQ(a[3], x);
    EXPECT_EQ(b[69999], x + 0.5f);
  }
}

}  // namespace
}  // namespace dml
