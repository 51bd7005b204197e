// Attention with the packed products of simd/product_loops.h, for precisions whose products are faster than those of
// float32: factors are rounded, sums and the softmax are float32. Tiles, masks and orders of sums are those of
// attention.cpp and attention_backward.cpp; panels of keys that no query sees are skipped.
#include <algorithm>
#include <array>

#include "core/rounding.h"
#include "kernels/attention_tiles.h"
#include "kernels/packed_panels.h"
#include "kernels/simd/loops.h"
#include "kernels/simd/product_loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 30, kBlock = 16;

std::int64_t filled(std::int64_t depth) { return round_up(depth, product_loops().kr); }
std::int64_t row_room(std::int64_t depth) { return filled(depth) * product_loops().half_words / 2; }
// The size of `count` rows packed for one side of a product, in floats.
std::int64_t room_of(Side side, std::int64_t count, std::int64_t depth) {
  return round_up(round_up(count, block_of(side)) * row_room(depth), kBlock);
}

// Packs `count` rows or columns of `from`.
void pack_to(Side side, bool columns, std::int64_t count, std::int64_t depth, const float* from, std::int64_t ld,
             float* to) {
  const std::int64_t unit = block_of(side);
  auto* pack_panel = side == Side::a ? product_loops().pack_a : product_loops().pack_b;
  for (std::int64_t r = 0; r < count; r += unit)
    pack_panel(columns, std::min(unit, count - r), depth, from + (columns ? r : r * ld), ld, to + r * row_room(depth));
}

// c (m,n) = or += a · bᵀ.
void multiply(std::int64_t m, std::int64_t n, std::int64_t depth, const float* a, const float* b, float* c,
              std::int64_t ldc, bool add) {
  product_loops().gemm(m, n, filled(depth), 0, a, b, c, ldc, add, {});
}

// Allocates from a thread's scratch memory.
struct Room {
  float* next;
  float* take(std::int64_t floats) {
    float* piece = next;
    next += round_up(floats, kBlock);
    return piece;
  }
};

namespace forward {

constexpr std::int64_t kQueries = 128, kKeys = 112;  // whole register blocks of AVX-512
static_assert(AttentionRows::kMaxRows % kQueries == 0);

struct QueryTile : QuerySums {
  float* q;

  static std::int64_t floats(std::int64_t e) {
    return room_of(Side::b, kQueries, e) + round_up(kQueries * e, kBlock) + 3 * kQueries;
  }

  void begin(const AttentionRows& t, std::int64_t done, Room& room, float* dense) {
    const std::int64_t e = t.shape.head_dim;
    place(t, done, kQueries);
    width = std::min(kQueries, round_up(rows, std::max(kBlock, block_of(Side::b))));
    q = room.take(room_of(Side::b, kQueries, e));
    o = room.take(kQueries * e);
    top = room.take(kQueries);
    sum = room.take(kQueries);
    fix = room.take(kQueries);
    for (std::int64_t i = 0; i < rows; ++i)
      loops().set_scaled(t.q.row(row + i - t.queries_from) + t.head * e, t.shape.scale, dense + i * e, e);
    pack_to(Side::b, false, rows, e, dense, e, q);
    clear(t);
  }

  // Scratch memory: `s` for the scores of all keys and queries, `p` for them packed.
  void visit(const AttentionRows& t, const KeyRows& tile, float* s, float* p) const {
    const std::int64_t e = t.shape.head_dim, keys = std::min(tile.count, row + rows - tile.first);
    const std::int64_t high = row - tile.first + 1, low = t.shape.window > 0 ? high - t.shape.window : -kFar;
    // Queries before this one see none of the keys.
    const std::int64_t from = std::max<std::int64_t>(0, 1 - high) / block_of(Side::b) * block_of(Side::b);
    multiply(keys, width - from, e, tile.k, q + from * row_room(e), s + from, width, false);
    loops().attention_softmax(s, keys, width, low, high, t.shape.softcap, top, sum, fix);
    // Zeroes what the softmax does not write, because no query of a block sees it.
    for (std::int64_t c = from; c < width; c += kBlock) {
      const std::int64_t begin = std::clamp<std::int64_t>(low + c, 0, keys),
                         end = std::min(high + c + kBlock - 1, keys);
      for (std::int64_t k = 0; k < tile.count; ++k)
        if (k < begin || k >= end) std::fill_n(s + k * width + c, kBlock, 0.f);
    }
    for (std::int64_t i = from; i < rows; ++i)
      if (fix[i] != 1) loops().set_scaled(o + i * e, fix[i], o + i * e, e);
    pack_to(Side::a, true, rows - from, tile.count, s + from, width, p);
    multiply(rows - from, e, tile.count, p, tile.v, o + from * e, e, true);
  }
};

}  // namespace forward

namespace backward {

constexpr std::int64_t kQueries = 56, kKeys = 128;  // whole register blocks of AVX-512
static_assert(AttentionKeys::kKeys % kKeys == 0);

// Packed rows and columns of q (scaled) and dout.
struct QueryTile : QueryRows {
  float *q_columns, *dout_columns;

  static std::int64_t floats(std::int64_t e) {
    return 2 * room_of(Side::a, kQueries, e) + 2 * room_of(Side::b, e, kQueries) + round_up(kQueries * e, kBlock);
  }

  void take(std::int64_t e, Room& room) {
    for (float** packed : {&q, &dout}) *packed = room.take(room_of(Side::a, kQueries, e));
    for (float** packed : {&q_columns, &dout_columns}) *packed = room.take(room_of(Side::b, e, kQueries));
    dq = room.take(kQueries * e);
  }
  void begin(const AttentionKeys& t, float* dense) const {
    const std::int64_t e = t.shape.head_dim;
    const float *own_q = t.q.row(row) + head * e, *own_dout = t.dout.row(row) + head * e;
    for (std::int64_t i = 0; i < rows; ++i) loops().set_scaled(own_q + i * t.q.cols, t.shape.scale, dense + i * e, e);
    pack_to(Side::a, false, rows, e, dense, e, q);
    pack_to(Side::a, false, rows, e, own_dout, t.dout.cols, dout);
    pack_to(Side::b, true, e, rows, own_q, t.q.cols, q_columns);
    pack_to(Side::b, true, e, rows, own_dout, t.dout.cols, dout_columns);
  }
};

// Packed rows of k and v, and columns of k.
struct KeyTile : KeyGradients {
  float *k, *v, *k_columns;

  static std::int64_t floats(std::int64_t e) {
    return 2 * room_of(Side::b, kKeys, e) + room_of(Side::b, e, kKeys) + 2 * round_up(kKeys * e, kBlock);
  }

  void begin(const AttentionKeys& t, std::int64_t key, std::int64_t last, Room& room) {
    const std::int64_t e = t.shape.head_dim, at = t.kv * e;
    place(t, key, last, kKeys);
    k = room.take(room_of(Side::b, kKeys, e));
    v = room.take(room_of(Side::b, kKeys, e));
    k_columns = room.take(room_of(Side::b, e, kKeys));
    dk = room.take(kKeys * e);
    dv = room.take(kKeys * e);
    pack_to(Side::b, false, count, e, t.k.row(key) + at, t.k.cols, k);
    pack_to(Side::b, false, count, e, t.v.row(key) + at, t.v.cols, v);
    pack_to(Side::b, true, e, count, t.k.row(key) + at, t.k.cols, k_columns);
    clear(t);
  }

  // Adds to dk and dv; sets the queries' dq or adds to it. Scratch memory: `s` and `dp` for every query and key, `p`
  // for them packed as the first factor, by rows or columns.
  void visit(const AttentionKeys& t, const QueryTile& tile, bool add, float* s, float* dp, float* p) const {
    const AttentionShape& shape = t.shape;
    const std::int64_t e = shape.head_dim, rows = tile.rows, after = tile.row - first;
    const std::int64_t seen = std::min(count, after + rows);  // keys that any of the queries may see
    const std::int64_t across = std::min(kKeys, round_up(seen, block_of(Side::b)));
    multiply(rows, across, e, tile.q, k, s, kKeys, false);
    multiply(rows, across, e, tile.dout, v, dp, kKeys, false);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t high = after + i + 1, low = shape.window > 0 ? high - shape.window : 0;
      loops().attention_gradient(s + i * kKeys, dp + i * kKeys, count, low, high, shape.softcap, shape.scale,
                                 t.lse.row(tile.row + i)[tile.head], t.dots.row(tile.row + i)[tile.head]);
    }
    pack_to(Side::a, true, seen, rows, s, kKeys, p);
    multiply(seen, e, rows, p, tile.dout_columns, dv, e, true);
    pack_to(Side::a, true, seen, rows, dp, kKeys, p);
    multiply(seen, e, rows, p, tile.q_columns, dk, e, true);
    pack_to(Side::a, false, rows, count, dp, kKeys, p);
    multiply(rows, e, count, p, k_columns, tile.dq, e, add);
  }
};

// Processes keys [first, last) of the task; every tile of queries is packed once for all of them.
void run_of_keys(const AttentionKeys& t, std::int64_t first, std::int64_t last) {
  const std::int64_t e = t.shape.head_dim, tiles = ceil_div(last - first, kKeys);
  const std::int64_t packed = std::max(room_of(Side::a, kKeys, kQueries), room_of(Side::a, kQueries, kKeys));
  Room room{thread_scratch(2 * kQueries * kKeys + packed + round_up(kQueries * e, kBlock) + QueryTile::floats(e) +
                           tiles * KeyTile::floats(e))
                .data()};
  float *s = room.take(kQueries * kKeys), *dp = room.take(kQueries * kKeys), *p = room.take(packed),
        *dense = room.take(kQueries * e);
  QueryTile queries{};
  queries.take(e, room);
  std::array<KeyTile, AttentionKeys::kKeys / kKeys> most{};
  const std::span<KeyTile> keys(most.data(), static_cast<std::size_t>(tiles));
  for (std::int64_t key = first; KeyTile & tile : keys) {
    tile.begin(t, key, last, room);
    key += kKeys;
  }
  for_each_query_tile(
      t, keys, kQueries, queries, [&](const QueryTile& tile) { tile.begin(t, dense); },
      [&](const KeyTile& tile, const QueryTile& seen, bool add) { tile.visit(t, seen, add, s, dp, p); });
}

}  // namespace backward
}  // namespace

void attention_rows_packed(const AttentionRows& t) {
  using namespace forward;
  const std::int64_t e = t.shape.head_dim, tiles = ceil_div(t.rows, kQueries);
  const std::int64_t packed_k = room_of(Side::a, kKeys, e), packed_v = room_of(Side::b, e, kKeys),
                     packed_p = room_of(Side::a, kQueries, kKeys);
  Room room{thread_scratch(kKeys * kQueries + packed_p + packed_k + packed_v + round_up(kQueries * e, kBlock) +
                           tiles * QueryTile::floats(e))
                .data()};
  float *s = room.take(kKeys * kQueries), *p = room.take(packed_p), *dense = room.take(kQueries * e);
  const KeyRows keys{.first = 0, .count = 0, .k = room.take(packed_k), .v = room.take(packed_v)};
  std::array<QueryTile, AttentionRows::kMaxRows / kQueries> most{};
  const std::span<QueryTile> queries(most.data(), static_cast<std::size_t>(tiles));
  for (std::int64_t done = 0; QueryTile & tile : queries) {
    tile.begin(t, done, room, dense);
    done += kQueries;
  }
  for_each_key_tile(
      t, queries, kKeys, keys,
      [&](const KeyRows& tile, const float* k, const float* v) {
        pack_to(Side::a, false, tile.count, e, k, t.k.cols, tile.k);
        pack_to(Side::b, true, e, tile.count, v, t.v.cols, tile.v);
      },
      [&](const QueryTile& tile, const KeyRows& seen) { tile.visit(t, seen, s, p); });
}

void attention_keys_packed(const AttentionKeys& t) {
  for_each_key_range(t, [&](std::int64_t first, std::int64_t last) { backward::run_of_keys(t, first, last); });
}

}  // namespace dml::kernels
