#include "core/profile.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/affinity.h"
#include "core/parallel.h"

namespace dml {
namespace {

class Profile : public testing::Test {
 protected:
  void SetUp() override {
    before_ = std::exchange(profiling, true);
    reset_profile();
  }
  void TearDown() override {
    reset_profile();
    profiling = before_;
  }
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

 private:
  bool before_ = false;
};

TEST_F(Profile, CountsNothingWhenSwitchedOff) {
  profiling = false;
  { ProfileScope scope("silent"); }
  EXPECT_TRUE(profile_rows().empty());
}

TEST_F(Profile, CountsTheTimeOfAnInnerScopeOnce) {
  auto start = std::chrono::steady_clock::now();
  {
    ProfileScope outer("outer");
    for (int i = 0; i < 3; ++i) {
      ProfileScope inner("inner", 10);
      pause();
    }
  }
  double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  auto rows = profile_rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_GE(rows[0].seconds, rows[1].seconds);
  if (rows[0].name == "outer") std::swap(rows[0], rows[1]);  // it had to wait for a core
  EXPECT_EQ(rows[0].name, "inner");
  EXPECT_EQ(rows[0].calls, 3);
  EXPECT_EQ(rows[0].operations, 30);
  EXPECT_GE(rows[0].seconds, 0.006);
  EXPECT_EQ(rows[1].calls, 1);
  EXPECT_LE(rows[0].seconds + rows[1].seconds, whole);
}

TEST_F(Profile, CountsTheTimeOfAllThreadsInTiles) {
  set_threads(2);
  {
    ProfileScope outer("outer");
    ProfileScope scope("uneven");
    parallel_for(2, [](std::int64_t tile) {
      for (std::int64_t i = 0; i < 1 + 4 * tile; ++i) pause();
    });
    parallel_for(1, [](std::int64_t) { pause(); });
  }
  set_threads(available_cores());
  std::vector<ProfileRow> rows = profile_rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "uneven");
  EXPECT_GE(rows[0].busy, 0.014);                // seven pauses of 2 ms
  EXPECT_LE(rows[0].busy, 2 * rows[0].seconds);  // of two threads
  EXPECT_EQ(rows[1].busy, 0);
}

TEST_F(Profile, TellsWhatPartOfTheirTimeThreadsWaited) {
  const std::vector<std::string> table = profile_table({{.name = "half", .calls = 1, .seconds = 3, .busy = 3},
                                                        {.name = "quarter", .calls = 2, .seconds = 1, .busy = 1.5}},
                                                       2);
  ASSERT_EQ(table.size(), 4u);
  EXPECT_EQ(table[1], "half                                1     3.0000  75.0 %   50.0 %                   ");
  EXPECT_EQ(table[2], "quarter                             2     1.0000  25.0 %   25.0 %                   ");
  EXPECT_EQ(table[3], "total                                     4.0000           43.8 %");
}

TEST_F(Profile, KeepsATableForEveryThread) {
  std::thread([] { ProfileScope scope("elsewhere"); }).join();
  EXPECT_TRUE(profile_rows().empty());
}

}  // namespace
}  // namespace dml
