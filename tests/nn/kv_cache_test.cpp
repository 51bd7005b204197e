#include "nn/kv_cache.h"

#include <gtest/gtest.h>

#include <span>

namespace dml {
namespace {

using kernels::CachedRows;

std::span<float> floats(const CachedRows& rows) {
  return {reinterpret_cast<float*>(rows.data), static_cast<std::size_t>(rows.rows * rows.width())};
}

TEST(KvCache, EveryLayerHasItsOwnRows) {
  KvCache cache(3, 1, 5, 7);
  EXPECT_EQ(cache.capacity(), 7);
  float n = 0;
  for (std::int64_t layer = 0; layer < 3; ++layer)
    for (const CachedRows& rows : {cache.keys(layer, 7), cache.values(layer, 7)})
      for (float& x : floats(rows)) x = n++;
  n = 0;
  for (std::int64_t layer = 0; layer < 3; ++layer)
    for (const CachedRows& rows : {cache.keys(layer, 7), cache.values(layer, 7)})
      for (float x : floats(rows)) ASSERT_EQ(x, n++);
}

TEST(KvCache, GrowsByWhatIsWrittenAndForgetsFromTheEnd) {
  KvCache cache(1, 2, 2, 10);
  EXPECT_EQ(cache.length(), 0);
  cache.advance(6);
  cache.advance(1);
  EXPECT_EQ(cache.length(), 7);
  cache.truncate(2);
  EXPECT_EQ(cache.length(), 2);
  EXPECT_EQ(cache.keys(0, 2).rows, 2);
}

TEST(KvCache, StaysWhereItIsWhenMoved) {
  KvCache a(2, 1, 4, 3);
  floats(a.keys(1, 3))[11] = 8;
  std::byte* place = a.keys(1, 3).data;
  KvCache b(std::move(a));
  EXPECT_EQ(b.keys(1, 3).data, place);
  EXPECT_EQ(floats(b.keys(1, 3))[11], 8);
}

TEST(KvCache, TakesOverWhatAnotherHolds) {
  for (DType dtype : {DType::f32, DType::bf16, DType::int8}) {
    KvCache a(2, 2, 3, 8, dtype), b(2, 2, 3, 6, dtype);
    std::vector<float> row{1, -2, 3, 40, 50, -60}, back(6);
    for (std::int64_t layer = 0; layer < 2; ++layer)
      for (std::int64_t t = 0; t < 4; ++t) {
        row[0] = static_cast<float>(layer + t);
        kernels::store_rows({row.data(), 1, 6}, a.keys(layer, 8), t);
        kernels::store_rows({row.data(), 1, 6}, a.values(layer, 8), t);
        if (t < 2) kernels::store_rows({row.data(), 1, 6}, b.keys(layer, 6), t);
      }
    a.advance(4);
    b.advance(3);
    b.copy(a, 2);
    EXPECT_EQ(b.length(), 4);
    for (std::int64_t t = 0; t < 4; ++t) {
      kernels::load_rows(b.keys(1, 4), t, {back.data(), 1, 6});
      EXPECT_NEAR(back[0], static_cast<float>(1 + t), 0.02);
      EXPECT_NEAR(back[5], -60, 0.25);
    }
  }
}

TEST(KvCache, SmallerStoragesTakeLessMemory) {
  EXPECT_EQ(KvCache::bytes_per_token(2, 4, 64, DType::f32), 2 * 2 * 4 * 64 * 4);
  EXPECT_EQ(KvCache::bytes_per_token(2, 4, 64, DType::bf16), 2 * 2 * 4 * 64 * 2);
  EXPECT_EQ(KvCache::bytes_per_token(2, 4, 64, DType::int8), 2 * 2 * 4 * (64 + 4));
}

}  // namespace
}  // namespace dml
