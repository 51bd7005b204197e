// The backward pass of attention, tile by tile. With P = exp(S − lse) and D = rowsum(dout ∘ out):
//   dV = Pᵀ dout,  dS = P ∘ (dout Vᵀ − D),  dQ = scale · dS K,  dK = scale · dSᵀ Q.
// A task owns every `strips`-th range of keys of one document and key-value head and writes their dk and dv. Its share
// of dq goes to dq itself (strip 0) or to its own buffer; the buffers are added in order.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"
#include "kernels/attention_tiles.h"
#include "kernels/simd/loops.h"
#include "kernels/simd/product_loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kQueries = 64, kKeys = 128, kBlock = 16;
static_assert(AttentionKeys::kKeys % kKeys == 0 &&
              kKeys % kQueries == 0);                   // the first row of a query tile is in one tile of keys
constexpr std::int64_t kEnoughTasks = 8, kLong = 1024;  // for batches of short documents, one strip gives enough tasks
constexpr std::int64_t kMaxStrips = 4;                  // all but the first have a buffer of the size of dq

// The number of strips of a document depends on its length only, so its bits do not depend on others.
std::int64_t strips_for(std::int64_t kv_heads, std::int64_t rows) {
  std::int64_t wanted = ((rows > kLong ? 2 : 1) * kEnoughTasks + kv_heads - 1) / kv_heads;
  const std::int64_t runs = ceil_div(rows, AttentionKeys::kKeys);
  return std::clamp<std::int64_t>(runs, 1, std::min(kMaxStrips, wanted));
}

// A tile of keys, transposed and dense.
struct KeyTile : KeyGradients {
  std::int64_t width;  // count, rounded up
  float *kt, *vt, *k;

  static std::int64_t floats(std::int64_t e) { return 5 * kKeys * e; }

  void begin(const AttentionKeys& t, std::int64_t key, std::int64_t last, float* memory) {
    const Loops& loop = loops();
    const std::int64_t e = t.shape.head_dim, at = t.kv * e;
    place(t, key, last, kKeys);
    width = (count + 15) / 16 * 16;
    kt = memory;
    vt = kt + e * kKeys;
    k = vt + e * kKeys;
    dk = k + e * kKeys;
    dv = dk + e * kKeys;
    loop.transpose(count, e, t.k.row(key) + at, t.k.cols, 1, kt, width);
    loop.transpose(count, e, t.v.row(key) + at, t.v.cols, 1, vt, width);
    loop.copy_block(count, e, t.k.row(key) + at, t.k.cols, k);
    clear(t);
  }

  // Adds to dk and dv; sets the queries' dq or adds to it. `s`: scratch memory for two values of every query and key.
  void visit(const AttentionKeys& t, const QueryRows& tile, bool add, float* s) {
    const Loops& loop = loops();
    const AttentionShape& shape = t.shape;
    const std::int64_t e = shape.head_dim, rows = tile.rows, after = tile.row - first;
    float* dp = s + kQueries * kKeys;
    // On the diagonal, blocks of 16 queries are multiplied only with keys up to the last of them, and blocks of 16 keys
    // only with queries from the first of them on.
    const bool diagonal = after < count;
    const std::int64_t query_step = diagonal ? kBlock : kQueries, key_step = diagonal ? kBlock : kKeys;
    auto keys_of = [&](std::int64_t b) { return diagonal ? std::min(count, after + b + kBlock) : count; };
    for (std::int64_t b = 0; b < rows; b += query_step) {
      std::int64_t some = std::min(query_step, rows - b), across = (keys_of(b) + 15) / 16 * 16;
      loop.small_gemm(some, across, e, tile.q + b * e, e, 1, kt, width, shape.scale, s + b * width, width, false);
      loop.small_gemm(some, across, e, tile.dout + b * e, e, 1, vt, width, 1, dp + b * width, width, false);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      std::int64_t high = after + i + 1, low = shape.window > 0 ? high - shape.window : 0;
      for (std::int64_t j = 0; shape.slopes && j < std::min(high, count); ++j)
        s[i * width + j] -= shape.slopes[tile.head] * static_cast<float>(after + i - j);
      loop.attention_gradient(s + i * width, dp + i * width, count, low, high, shape.softcap, shape.scale,
                              t.lse.row(tile.row + i)[tile.head], t.dots.row(tile.row + i)[tile.head]);
    }
    for (std::int64_t b = 0; b < count; b += key_step) {
      std::int64_t some = std::min(key_step, count - b), from = diagonal ? std::max<std::int64_t>(0, b - after) : 0;
      if (from >= rows) break;
      loop.small_gemm(some, e, rows - from, s + from * width + b, 1, width, tile.dout + from * e, e, 1, dv + b * e, e,
                      true);
      loop.small_gemm(some, e, rows - from, dp + from * width + b, 1, width, tile.q + from * e, e, 1, dk + b * e, e,
                      true);
    }
    for (std::int64_t b = 0; b < rows; b += query_step)
      loop.small_gemm(std::min(query_step, rows - b), e, keys_of(b), dp + b * width, width, 1, k, e, 1, tile.dq + b * e,
                      e, add);
  }
};

// Processes keys [first, last) of the task; every tile of queries is fetched once for all of them.
void run_of_keys(const AttentionKeys& t, std::int64_t first, std::int64_t last) {
  const Loops& loop = loops();
  const std::int64_t e = t.shape.head_dim, tiles = ceil_div(last - first, kKeys);
  float* s = thread_scratch(2 * kQueries * kKeys + 3 * kQueries * e + tiles * KeyTile::floats(e)).data();
  float* dense = s + 2 * kQueries * kKeys;
  std::array<KeyTile, AttentionKeys::kKeys / kKeys> most{};
  const std::span<KeyTile> keys(most.data(), static_cast<std::size_t>(tiles));
  float* memory = dense + 3 * kQueries * e;
  for (std::int64_t key = first; KeyTile & tile : keys) {
    tile.begin(t, key, last, memory);
    key += kKeys;
    memory += KeyTile::floats(e);
  }
  for_each_query_tile(
      t, keys, kQueries, QueryRows{0, 0, 0, dense, dense + kQueries * e, dense + 2 * kQueries * e},
      [&](const QueryRows& queries) {
        loop.copy_block(queries.rows, e, t.q.row(queries.row) + queries.head * e, t.q.cols, queries.q);
        loop.copy_block(queries.rows, e, t.dout.row(queries.row) + queries.head * e, t.dout.cols, queries.dout);
      },
      [&](KeyTile& tile, const QueryRows& queries, bool add) { tile.visit(t, queries, add, s); });
}

void keys_of_a_head(const AttentionKeys& t) {
  for_each_key_range(t, [&](std::int64_t first, std::int64_t last) { run_of_keys(t, first, last); });
}

// The implementation for a document of so many rows.
void (*way_of(const AttentionShape& shape, std::int64_t rows))(const AttentionKeys&) {
  if (!uses_isa_attention(shape, rows)) return keys_of_a_head;
  return product_loops().attention_keys ? product_loops().attention_keys : keys_of_a_head;
}

}  // namespace

void attention_backward(const AttentionShape& shape, ConstMat dout, ConstMat q, ConstMat k, ConstMat v, ConstMat out,
                        ConstMat lse, std::span<const std::int32_t> starts, Mat dq, Mat dk, Mat dv, Arena& scratch) {
  ProfileScope profiled("attention_backward");
  const std::int64_t e = shape.head_dim, group = shape.heads / shape.kv_heads, rows_all = q.rows;
  DML_CHECK(q.cols == shape.heads * e && k.cols == shape.kv_heads * e && dout.cols == q.cols && dq.cols == q.cols);
  DML_CHECK(dout.rows == rows_all && lse.rows == rows_all && dq.rows == rows_all && dk.rows == rows_all);
  DML_CHECK(dk.cols == k.cols && dv.cols == k.cols && dv.rows == rows_all && out.cols == q.cols);
  Arena::Scope scope(scratch);
  Mat dots = scratch.matrix(rows_all, shape.heads);
  const std::int64_t most_strips = strips_for(shape.kv_heads, rows_all);
  Mat extra = most_strips > 1 ? scratch.matrix((most_strips - 1) * rows_all, q.cols) : Mat{};
  parallel_ranges(rows_all, 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t)
      for (std::int64_t h = 0; h < shape.heads; ++h)
        dots.row(t)[h] = loops().dot(dout.row(t) + h * e, out.row(t) + h * e, e);
  });

  const std::int64_t documents = std::ssize(starts) - 1;
  parallel_for(documents * shape.kv_heads * most_strips, [&](std::int64_t task) {
    const std::int64_t strip = task % most_strips, kv = task / most_strips % shape.kv_heads,
                       document = task / most_strips / shape.kv_heads;
    const std::int64_t begin = starts[static_cast<std::size_t>(document)],
                       end = starts[static_cast<std::size_t>(document) + 1];
    const std::int64_t strips = strips_for(shape.kv_heads, end - begin);
    if (strip >= strips) return;
    Mat to = strip == 0 ? dq : extra.slice((strip - 1) * rows_all, rows_all);
    for (std::int64_t t = begin; t < end; ++t)
      std::memset(to.row(t) + kv * group * e, 0, static_cast<std::size_t>(group * e) * sizeof(float));
    way_of(shape, end - begin)({shape, dout, q, k, v, lse, dots, to, dk, dv, kv, begin, end, strip, strips});
  });

  if (most_strips == 1) return;
  parallel_for(ceil_div(rows_all, kQueries), [&](std::int64_t block) {
    std::int64_t t = block * kQueries, last = std::min(t + kQueries, rows_all);
    auto document = std::upper_bound(starts.begin(), starts.end(), static_cast<std::int32_t>(t)) - 1;
    for (; t < last; ++t) {
      while (*(document + 1) <= t) ++document;
      const std::int64_t strips = strips_for(shape.kv_heads, *(document + 1) - *document);
      for (std::int64_t strip = 1; strip < strips; ++strip)
        loops().add_scaled(extra.row((strip - 1) * rows_all + t), 1, dq.row(t), dq.cols);
    }
  });
}

}  // namespace dml::kernels
