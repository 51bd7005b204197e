// Attention beside its table of cases: bits of a document, decoding, and what memory it takes.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/arena.h"
#include "core/parallel.h"
#include "kernels/processor.h"
#include "values.h"

namespace dml::kernels {
namespace {

TEST(Attention, OfADocumentHasTheSameBitsWhateverIsPackedBeforeIt) {
  constexpr std::int64_t kBefore = 100, kRows = 700, kAll = kBefore + kRows;
  auto q = values(kAll * 32, 1), k = values(kAll * 16, 2), v = values(kAll * 16, 3), dout = values(kAll * 32, 4);
  const std::vector<std::int32_t> two{0, kBefore, kAll}, single{0, kRows};
  Arena scratch(std::size_t{4} << 20);
  // out, lse, dq, dk, dv of rows from `first` on.
  auto results = [&](const AttentionShape& shape, std::int64_t first, const std::vector<std::int32_t>& starts) {
    const std::int64_t rows = starts.back();
    auto from = [&](auto& x, std::int64_t cols) { return mat(x, kAll, cols).slice(first, rows); };
    std::vector<float> all(static_cast<std::size_t>(rows * (32 + 2 + 32 + 16 + 16)));
    float* at = all.data();
    auto take = [&](std::int64_t cols) { return Mat{std::exchange(at, at + rows * cols), rows, cols}; };
    Mat out = take(32), lse = take(2), dq = take(32), dk = take(16), dv = take(16);
    attention(shape, from(q, 32), from(k, 16), from(v, 16), starts, out, lse);
    attention_backward(shape, from(dout, 32), from(q, 32), from(k, 16), from(v, 16), out, lse, starts, dq, dk, dv,
                       scratch);
    std::vector<float> of_the_document;
    for (const Mat& m : {out, lse, dq, dk, dv}) {
      const float* begin = m.row(rows - kRows);
      of_the_document.insert(of_the_document.end(), begin, begin + kRows * m.cols);
    }
    return of_the_document;
  };
  const int threads_before = threads();
  for (auto [precision, window] : {std::pair{DType::f32, 0}, {DType::f32, 150}, {DType::bf16, 0}, {DType::bf16, 150}}) {
    use_precision(precision);
    const AttentionShape shape{.heads = 2, .kv_heads = 1, .head_dim = 16, .scale = 0.25f, .window = window};
    set_threads(1);
    const auto alone = results(shape, kBefore, single);
    for (int count : {1, 7}) {
      set_threads(count);
      EXPECT_EQ(results(shape, 0, two), alone) << window << " " << count;
    }
  }
  use_precision(DType::f32);
  set_threads(threads_before);
}

CachedRows cached(std::vector<float>& values, std::int64_t rows, std::int64_t heads) {
  auto width = static_cast<std::int64_t>(values.size()) / rows;
  return {DType::f32, rows, heads, width / heads, reinterpret_cast<std::byte*>(values.data()), nullptr};
}

TEST(AttentionDecode, AgreesWithTheLastRowOfAttention) {
  const float slopes[] = {0.25f, 0.0625f, 0.015625f, 0.00390625f};
  for (std::int64_t length : {1, 65, 1200})
    for (std::int64_t window : {0, 70, -1}) {  // -1: slopes instead
      AttentionShape shape{.heads = 4,
                           .kv_heads = 2,
                           .head_dim = 24,
                           .scale = 0.2f,
                           .softcap = 3,
                           .window = std::max<std::int64_t>(0, window)};
      if (window < 0) shape.softcap = 0, shape.slopes = slopes;
      auto n = static_cast<std::size_t>(length);
      auto q = values(n * 96, 1), k = values(n * 48, 2), v = values(n * 48, 3);
      std::vector<float> full(n * 96), lse(n * 4), last(96);
      std::vector<std::int32_t> starts{0, static_cast<std::int32_t>(length)};
      attention(shape, mat(q, length, 96), mat(k, length, 48), mat(v, length, 48), starts, mat(full, length, 96),
                mat(lse, length, 4));
      Arena scratch(1 << 20);
      CachedQuery query{q.data() + (n - 1) * 96, cached(k, length, 2), cached(v, length, 2), last.data()};
      attention_decode(shape, {&query, 1}, scratch);
      for (std::size_t i = 0; i < 96; ++i) EXPECT_NEAR(last[i], full[(n - 1) * 96 + i], 1e-5f);
    }
}

TEST(AttentionDecode, OfASequenceHasTheSameBitsWhateverIsDecodedBesideIt) {
  AttentionShape shape{.heads = 4, .kv_heads = 2, .head_dim = 24, .scale = 0.2f};
  auto q = values(3 * 96, 1), k = values(700 * 48, 2), v = values(700 * 48, 3);
  std::vector<float> together(3 * 96), alone(96);
  std::vector<CachedQuery> queries;
  std::int64_t lengths[] = {600, 1, 700};
  for (std::size_t i = 0; i < 3; ++i)
    queries.push_back({q.data() + i * 96, cached(k, 700, 2).head_of(lengths[i]), cached(v, 700, 2).head_of(lengths[i]),
                       together.data() + i * 96});
  Arena scratch(1 << 20);
  attention_decode(shape, queries, scratch);
  for (std::size_t i = 0; i < 3; ++i) {
    queries[i].out = alone.data();
    attention_decode(shape, {&queries[i], 1}, scratch);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<std::ptrdiff_t>(i * 96)));
  }
}

TEST(Attention, PartsOfADocumentHaveTheBitsOfTheWhole) {
  constexpr std::int64_t t = 300, e = 24, heads = 4;
  const float slopes[] = {0.25f, 0.0625f, 0.015625f, 0.00390625f};
  for (std::int64_t window : {0, 70, -1}) {  // -1: slopes instead
    const AttentionShape shape{.heads = heads,
                               .kv_heads = 2,
                               .head_dim = e,
                               .scale = 0.3f,
                               .window = std::max<std::int64_t>(0, window),
                               .slopes = window < 0 ? slopes : nullptr};
    auto q = values(t * heads * e, 1), k = values(t * 2 * e, 2), v = values(t * 2 * e, 3);
    std::vector<float> whole(q.size()), lse(t * heads), part(q.size());
    attention_tail(shape, mat(q, t, heads * e), mat(k, t, 2 * e), mat(v, t, 2 * e), mat(whole, t, heads * e),
                   mat(lse, t, heads));
    for (std::int64_t size : {1, 7, 16, 129}) {
      for (std::int64_t first = 0; first < t; first += size) {
        const std::int64_t count = std::min(size, t - first);
        attention_tail(shape, mat(q, t, heads * e).slice(first, count), mat(k, t, 2 * e).slice(0, first + count),
                       mat(v, t, 2 * e).slice(0, first + count), mat(part, t, heads * e).slice(first, count),
                       mat(lse, t, heads).slice(first, count));
      }
      EXPECT_EQ(part, whole) << size << " " << window;
    }
  }
}

TEST(Attention, DecodingDoesNotSeeHowRowsArePaged) {
  constexpr std::int64_t rows = 700, page = 16, e = 24;
  auto q = values(96, 1), k = values(rows * 48, 2), v = values(rows * 48, 3);
  std::vector<std::int32_t> pages((rows + page - 1) / page);
  for (std::size_t i = 0; i < pages.size(); ++i)
    pages[i] = static_cast<std::int32_t>(i < 20 ? pages.size() - 1 - i : i - 20);
  const std::size_t floats = pages.size() * page * 48;
  std::vector<float> pk(floats), pv(floats), want(96), got(96);
  auto paged = [&](std::vector<float>& memory, std::vector<float>& plain) {
    CachedRows c = cached(memory, rows, 2);
    c.pages = pages.data();
    c.page_rows = page;
    store_rows(mat(plain, rows, 48), c, 0);
    return c;
  };
  Arena scratch(1 << 20);
  for (std::int64_t window : {0, 333}) {
    const AttentionShape shape{.heads = 4, .kv_heads = 2, .head_dim = e, .scale = 0.2f, .window = window};
    CachedQuery plain{q.data(), cached(k, rows, 2), cached(v, rows, 2), want.data()};
    CachedQuery other{q.data(), paged(pk, k), paged(pv, v), got.data()};
    attention_decode(shape, {&plain, 1}, scratch);
    attention_decode(shape, {&other, 1}, scratch);
    EXPECT_EQ(got, want);
  }
}

TEST(Attention, NeedsLittleScratchWhereAllHeadsShareKeys) {
  constexpr std::int64_t rows = 8192, heads = 16, e = 64;
  DryRun dry;
  Arena arena = Arena::measuring();
  Mat q = arena.matrix(rows, heads * e), k = arena.matrix(rows, e), lse = arena.matrix(rows, heads);
  const std::size_t before = arena.high_water();
  const std::int32_t starts[] = {0, rows};
  attention_backward({.heads = heads, .kv_heads = 1, .head_dim = e}, q, q, k, k, q, lse, starts, q, k, k, arena);
  EXPECT_LE(arena.high_water() - before, sizeof(float) * (3 * q.size() + 2 * lse.size()));
}

}  // namespace
}  // namespace dml::kernels
