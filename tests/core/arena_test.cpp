#include "core/arena.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace dml {
namespace {

TEST(Arena, HandsOutAlignedZeroedMemoryThatDoesNotOverlap) {
  Arena arena(4096);
  auto a = arena.take<char>(3);
  Mat b = arena.matrix(3, 5);
  auto c = arena.take<double>(2);
  for (auto p : {static_cast<void*>(a.data()), static_cast<void*>(b.data), static_cast<void*>(c.data())})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % Arena::kAlignment, 0u);
  EXPECT_LE(static_cast<void*>(a.data() + 3), static_cast<void*>(b.data));
  EXPECT_LE(static_cast<void*>(b.data + 15), static_cast<void*>(c.data()));
  EXPECT_EQ(b.rows, 3);
  EXPECT_EQ(b.cols, 5);
  for (float x : b.flat()) EXPECT_EQ(x, 0);
}

TEST(Arena, AScopeGivesBackWhatWasTakenInside) {
  Arena arena(4096);
  arena.take<float>(4);
  std::size_t before = arena.used();
  float* inner = nullptr;
  {
    Arena::Scope scope(arena);
    inner = arena.take<float>(100).data();
    {
      Arena::Scope deeper(arena);
      arena.take<float>(100);
    }
    EXPECT_EQ(arena.used(), 64 + 400u);
  }
  EXPECT_EQ(arena.used(), before);
  EXPECT_EQ(arena.take<float>(1).data(), inner);
}

TEST(Arena, TracksItsHighWaterMark) {
  Arena arena(8192);
  {
    Arena::Scope scope(arena);
    arena.take<float>(1000);
  }
  arena.take<float>(10);
  EXPECT_EQ(arena.high_water(), 4000u);
}

TEST(Arena, TakingMoreThanPlannedIsAnInternalError) {
  Arena arena(1024);
  arena.take<char>(1000);
  EXPECT_NO_THROW(arena.take<char>(0));
  try {
    arena.take<char>(1);  // would begin at 1024
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::internal);
    EXPECT_THAT(e.what(), testing::HasSubstr("more than the 1024 bytes planned"));
  }
  EXPECT_EQ(arena.used(), 1024u);
}

TEST(Arena, SizesThatWrapAroundAreErrors) {
  Arena arena(1024);
  EXPECT_THROW(arena.take<float>(std::int64_t{1} << 62), Error);
  EXPECT_THROW(arena.take<double>(INT64_MAX), Error);
  EXPECT_THROW(arena.take<float>(-1), Error);
  EXPECT_THROW(arena.matrix(1, 257), Error);
  EXPECT_NO_THROW(arena.matrix(1, 256));
}

TEST(Arena, AMeasuringOneCountsWhatARealOneWouldTake) {
  auto step = [](Arena& arena) {
    arena.take<char>(1);
    Arena::Scope scope(arena);
    arena.matrix(1000, 1000);
    arena.take<std::int32_t>(7);
  };
  Arena counting = Arena::measuring();
  step(counting);
  Arena real(counting.high_water());
  EXPECT_NO_THROW(step(real));
  EXPECT_EQ(real.high_water(), counting.high_water());
  Arena smaller(counting.high_water() - 1);
  EXPECT_THROW(step(smaller), Error);
}

TEST(Arena, AMeasuringOneDescribesFarMoreThanTheMachineHas) {
  Arena counting = Arena::measuring();
  EXPECT_NE(counting.matrix(1 << 20, 1 << 20).data, nullptr);
  EXPECT_EQ(counting.used(), std::size_t{1} << 42);
}

TEST(Arena, UnavailableMemoryIsADistinctError) {
  try {
    Arena arena(std::size_t{1} << 60);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::memory);
  }
}

TEST(Arena, MovesWithItsMemory) {
  Arena a(1024);
  float* p = a.take<float>(1).data();
  *p = 5;
  Arena b(std::move(a));
  EXPECT_EQ(*p, 5);
  EXPECT_EQ(b.used(), 4u);
  a = Arena(64);
  EXPECT_EQ(a.capacity(), 64u);
  EXPECT_EQ(b.capacity(), 1024u);
}

}  // namespace
}  // namespace dml
