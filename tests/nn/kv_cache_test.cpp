#include "nn/kv_cache.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

TEST(KvCache, EveryLayerHasItsOwnRows) {
  KvCache cache(3, 5, 7);
  EXPECT_EQ(cache.capacity(), 7);
  float n = 0;
  for (std::int64_t layer = 0; layer < 3; ++layer)
    for (Mat m : {cache.keys(layer, 7), cache.values(layer, 7)})
      for (float& x : m.flat()) x = n++;
  n = 0;
  for (std::int64_t layer = 0; layer < 3; ++layer)
    for (Mat m : {cache.keys(layer, 7), cache.values(layer, 7)})
      for (float x : m.flat()) ASSERT_EQ(x, n++);
}

TEST(KvCache, GrowsByWhatIsWrittenAndForgetsFromTheEnd) {
  KvCache cache(1, 4, 10);
  EXPECT_EQ(cache.length(), 0);
  cache.advance(6);
  cache.advance(1);
  EXPECT_EQ(cache.length(), 7);
  cache.truncate(2);
  EXPECT_EQ(cache.length(), 2);
  EXPECT_EQ(cache.keys(0, 2).rows, 2);
}

TEST(KvCache, StaysWhereItIsWhenMoved) {
  KvCache a(2, 4, 3);
  a.keys(1, 3).row(2)[3] = 8;
  float* place = a.keys(1, 3).data;
  KvCache b(std::move(a));
  EXPECT_EQ(b.keys(1, 3).data, place);
  EXPECT_EQ(b.keys(1, 3).row(2)[3], 8);
}

}  // namespace
}  // namespace dml
