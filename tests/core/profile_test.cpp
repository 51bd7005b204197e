#include "core/profile.h"

#include <gtest/gtest.h>

#include <thread>

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

TEST_F(Profile, KeepsATableForEveryThread) {
  std::thread([] { ProfileScope scope("elsewhere"); }).join();
  EXPECT_TRUE(profile_rows().empty());
}

}  // namespace
}  // namespace dml
