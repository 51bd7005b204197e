// Tiles of attention, shared by the float32 implementation (attention.cpp, attention_backward.cpp) and the packed one
// (attention_packed.cpp): the accumulators of a tile of queries or keys, and the iteration over all pairs of tiles that
// see each other. Each implementation adds the operands of its products and visit(), the products of a pair.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "kernels/attention_tasks.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {

/// Forward: the accumulators of rows [row, row + rows) of one head.
struct QuerySums {
  std::int64_t row, rows, width, seen;  // width: rows, rounded up; seen: the first key that any of them sees
  float *o, *top, *sum, *fix;           // o (rows, head_dim); running maximum, sum and rescaling factor (width)

  /// Selects the rows of a task from `done` on, at most `most`.
  void place(const AttentionRows& t, std::int64_t done, std::int64_t most) {
    row = t.row + done;
    rows = std::min(most, t.rows - done);
    seen = t.shape.window > 0 ? std::max(t.begin, row - t.shape.window + 1) : t.begin;
  }
  void clear(const AttentionRows& t) const {
    std::fill(top, top + width, -std::numeric_limits<float>::infinity());
    std::fill(sum, sum + width, 0.f);
    std::fill(o, o + rows * t.shape.head_dim, 0.f);
  }
  void finish(const AttentionRows& t) const {
    const std::int64_t e = t.shape.head_dim;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t to = row + i - t.queries_from;
      loops().set_scaled(o + i * e, 1 / sum[i], t.out.row(to) + t.head * e, e);
      t.lse.row(to)[t.head] = top[i] + std::log(sum[i]);
    }
  }
};

/// Keys and values [first, first + count) of one head, in an implementation's layout.
struct KeyRows {
  std::int64_t first, count;
  float *k, *v;
};

/// Calls fetch(keys, k, v) for tiles of `most` keys of the task's head, and visit(tile, keys) for the tiles of queries
/// that see any of them.
template <class Tile, class Fetch, class Visit>
void for_each_key_tile(const AttentionRows& t, std::span<Tile> queries, std::int64_t most, KeyRows keys, Fetch fetch,
                       Visit visit) {
  const std::int64_t at = t.head / (t.shape.heads / t.shape.kv_heads) * t.shape.head_dim;
  for (keys.first = t.begin + (queries.front().seen - t.begin) / most * most; keys.first < t.row + t.rows;
       keys.first += most) {
    keys.count = std::min(most, t.row + t.rows - keys.first);
    fetch(keys, t.k.row(keys.first) + at, t.v.row(keys.first) + at);
    for (Tile& tile : queries)
      if (keys.first < tile.row + tile.rows && tile.seen < keys.first + most) visit(tile, keys);
  }
  for (const Tile& tile : queries) tile.finish(t);
}

/// Backward: keys [first, first + count) of one head, and their dense gradients.
struct KeyGradients {
  std::int64_t first, count;
  std::int64_t seen_until;  // the first query that sees none of them
  float *dk, *dv;

  /// Selects at most `most` keys of [key, last). Call clear() before dk and dv are added to.
  void place(const AttentionKeys& t, std::int64_t key, std::int64_t last, std::int64_t most) {
    first = key;
    count = std::min(most, last - key);
    seen_until = t.shape.window > 0 ? std::min(t.end, key + count - 1 + t.shape.window) : t.end;
  }
  void clear(const AttentionKeys& t) const {
    std::fill(dk, dk + count * t.shape.head_dim, 0.f);
    std::fill(dv, dv + count * t.shape.head_dim, 0.f);
  }
  void finish(const AttentionKeys& t) const {
    const std::int64_t e = t.shape.head_dim, at = t.kv * e;
    for (std::int64_t i = 0; i < count; ++i) {
      std::memcpy(t.dk.row(first + i) + at, dk + i * e, static_cast<std::size_t>(e) * sizeof(float));
      std::memcpy(t.dv.row(first + i) + at, dv + i * e, static_cast<std::size_t>(e) * sizeof(float));
    }
  }
};

/// Queries [row, row + rows) of one head, in an implementation's layout; dq is dense.
struct QueryRows {
  std::int64_t row, rows, head;
  float *q, *dout, *dq;
};

/// Calls fetch(queries) for tiles of `most` queries of every head of the task that may see one of the keys, and
/// visit(tile, queries, add) for the tiles of keys that they see. The first visit sets their dq, later ones add to it.
template <class Tile, class Queries, class Fetch, class Visit>
void for_each_query_tile(const AttentionKeys& t, std::span<Tile> keys, std::int64_t most, Queries queries, Fetch fetch,
                         Visit visit) {
  const std::int64_t e = t.shape.head_dim, group = t.shape.heads / t.shape.kv_heads, end = keys.back().seen_until;
  for (queries.head = t.kv * group; queries.head < (t.kv + 1) * group; ++queries.head)
    for (queries.row = keys.front().first; queries.row < end; queries.row += most) {
      queries.rows = std::min(most, end - queries.row);
      fetch(queries);
      bool begun = false;
      for (Tile& tile : keys)
        if (tile.first < queries.row + queries.rows && queries.row < tile.seen_until) {
          visit(tile, queries, begun);
          begun = true;
        }
      for (std::int64_t i = 0; i < queries.rows; ++i)
        loops().add_scaled(queries.dq + i * e, 1, t.dq.row(queries.row + i) + queries.head * e, e);
    }
  for (const Tile& tile : keys) tile.finish(t);
}

/// Calls run(first, last) for every key range of the task.
template <class Run>
void for_each_key_range(const AttentionKeys& t, Run run) {
  constexpr std::int64_t kRun = AttentionKeys::kKeys;
  for (std::int64_t key = t.begin + t.strip * kRun; key < t.end; key += t.strips * kRun)
    run(key, std::min(key + kRun, t.end));
}

}  // namespace dml::kernels
