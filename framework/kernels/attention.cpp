#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"
#include "kernels/attention_tiles.h"
#include "kernels/simd/loops.h"
#include "kernels/simd/product_loops.h"

// The forward pass. A task is one head and some consecutive rows of the batch, processed by document. For a tile of 128
// queries, Sᵀ = K Qᵀ is computed one key tile at a time: a vector holds many queries, so the softmax needs no sums
// across lanes, and the output so far is rescaled when a query's maximum rises. All query tiles of a task use a key
// tile before the next is fetched. Key tiles start at the document's start and products are chains per row
// (simd/loops.h), so the bits of a row depend on its document only.
namespace dml::kernels {
namespace {

constexpr std::int64_t kQueries = 128, kKeys = 64, kBlock = 16;
constexpr std::int64_t kFar = std::int64_t{1} << 30;
static_assert(AttentionRows::kMaxRows % kQueries == 0);

struct QueryTile : QuerySums {
  float* qt;

  static std::int64_t floats(std::int64_t e) { return 2 * e * kQueries + 3 * kQueries; }

  void begin(const AttentionRows& t, std::int64_t done, float* memory) {
    const std::int64_t e = t.shape.head_dim;
    place(t, done, kQueries);
    width = round_up(rows, 16);
    qt = memory;
    o = qt + e * kQueries;
    top = o + e * kQueries;
    sum = top + kQueries;
    fix = sum + kQueries;
    loops().transpose(rows, e, t.q.row(row - t.queries_from) + t.head * e, t.q.cols, t.shape.scale, qt, width);
    clear(t);
  }

  // `s`: scratch memory for the scores of all keys and queries.
  void visit(const AttentionRows& t, const KeyRows& tile, float* s) {
    const Loops& loop = loops();
    const AttentionShape& shape = t.shape;
    const std::int64_t e = shape.head_dim, keys = std::min(tile.count, row + rows - tile.first);
    const std::int64_t high = row - tile.first + 1, low = shape.window > 0 ? high - shape.window : -kFar;
    if (high >= keys && low + rows <= 1) loop.small_gemm(keys, width, e, tile.k, e, 1, qt, width, 1, s, width, false);
    else  // at the diagonal and the edge of the window, blocks of keys are multiplied only with queries that may see
          // one of them
      for (std::int64_t b = 0; b < keys; b += kBlock) {
        std::int64_t first = std::max<std::int64_t>(0, b - high + 1) / kBlock * kBlock;
        std::int64_t last =
            low == -kFar ? width : std::min(width, round_up(std::max<std::int64_t>(0, b + kBlock - low), 16));
        if (first < last)
          loop.small_gemm(std::min(kBlock, keys - b), last - first, e, tile.k + b * e, e, 1, qt + first, width, 1,
                          s + b * width + first, width, false);
      }
    if (shape.slopes)
      for (std::int64_t b = 0; b < keys; ++b)
        for (std::int64_t i = 0; i < width; ++i)
          s[b * width + i] -= shape.slopes[t.head] * static_cast<float>(row + i - tile.first - b);
    loop.attention_softmax(s, keys, width, low, high, shape.softcap, top, sum, fix);
    for (std::int64_t b = 0; b < rows; b += kBlock) {
      std::int64_t count = std::min(kBlock, rows - b);
      std::int64_t first = std::max<std::int64_t>(0, low + b), last = std::min(keys, high + b + kBlock - 1);
      if (first >= last) continue;
      for (std::int64_t i = b; i < b + count; ++i)
        if (fix[i] != 1) loop.set_scaled(o + i * e, fix[i], o + i * e, e);
      loop.small_gemm(count, e, last - first, s + first * width + b, 1, width, tile.v + first * e, e, 1, o + b * e, e,
                      true);
    }
  }
};

void rows_of_a_head(const AttentionRows& t) {
  const std::int64_t e = t.shape.head_dim, tiles = ceil_div(t.rows, kQueries);
  float* s = thread_scratch(kKeys * kQueries + 2 * kKeys * e + tiles * QueryTile::floats(e)).data();
  const KeyRows keys{.first = 0, .count = 0, .k = s + kKeys * kQueries, .v = s + kKeys * kQueries + kKeys * e};
  std::array<QueryTile, AttentionRows::kMaxRows / kQueries> most{};
  const std::span<QueryTile> queries(most.data(), static_cast<std::size_t>(tiles));
  float* memory = keys.v + kKeys * e;
  for (std::int64_t done = 0; QueryTile & tile : queries) {
    tile.begin(t, done, memory);
    done += kQueries;
    memory += QueryTile::floats(e);
  }
  for_each_key_tile(
      t, queries, kKeys, keys,
      [&](const KeyRows& tile, const float* k, const float* v) {
        loops().copy_block(tile.count, e, k, t.k.cols, tile.k);
        loops().copy_block(tile.count, e, v, t.v.cols, tile.v);
      },
      [&](QueryTile& tile, const KeyRows& seen) { tile.visit(t, seen, s); });
}

// The implementation for a document of so many rows.
void (*way_of(const AttentionShape& shape, std::int64_t rows))(const AttentionRows&) {
  if (!uses_isa_attention(shape, rows)) return rows_of_a_head;
  return product_loops().attention_rows ? product_loops().attention_rows : rows_of_a_head;
}

// A sink takes part in every row's softmax: the output of the keys is scaled by a factor.
void add_sinks(const AttentionShape& shape, Mat out, Mat lse) {
  parallel_ranges(out.rows, kKeys, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t)
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        float& sum = lse.row(t)[h];
        const float top = std::max(sum, shape.sinks[h]);
        const float all = top + std::log(std::exp(sum - top) + std::exp(shape.sinks[h] - top));
        float* o = out.row(t) + h * shape.head_dim;
        loops().set_scaled(o, std::exp(sum - all), o, shape.head_dim);
        sum = all;
      }
  });
}

}  // namespace

void attention(const AttentionShape& shape, ConstMat q, ConstMat k, ConstMat v, std::span<const std::int32_t> starts,
               Mat out, Mat lse) {
  ProfileScope profiled("attention");
  const std::int64_t e = shape.head_dim;
  DML_CHECK(q.cols == shape.heads * e && k.cols == shape.kv_heads * e && v.cols == k.cols && out.cols == q.cols);
  DML_CHECK(k.rows == q.rows && v.rows == q.rows && out.rows == q.rows && lse.rows == q.rows &&
            lse.cols == shape.heads);
  // Rows of a task share the preparation of keys and values; results do not depend on their number.
  std::int64_t at_once = AttentionRows::kMaxRows;
  while (at_once > kQueries && q.rows * shape.heads < 4 * threads() * at_once) at_once /= 2;
  parallel_for(ceil_div(q.rows, at_once) * shape.heads, [&](std::int64_t task) {
    const std::int64_t head = task % shape.heads, first = task / shape.heads * at_once;
    const std::int64_t last = std::min(first + at_once, q.rows);
    auto document = std::upper_bound(starts.begin(), starts.end(), static_cast<std::int32_t>(first)) - 1;
    for (std::int64_t row = first; row < last;) {
      while (*(document + 1) <= row) ++document;
      std::int64_t rows = std::min<std::int64_t>(*(document + 1), last) - row;
      way_of(shape, *(document + 1) - *document)({shape, q, k, v, out, lse, head, *document, row, rows});
      row += rows;
    }
  });
  if (shape.sinks) add_sinks(shape, out, lse);
}

// A sink's value is zero, so the gradient of its score is p · (0 − dout · out).
void attention_sinks_backward(const AttentionShape& shape, ConstMat dout, ConstMat out, ConstMat lse, float* dsinks,
                              Arena& scratch) {
  Arena::Scope scope(scratch);
  constexpr std::int64_t kRows = 256;
  const std::int64_t parts = ceil_div(out.rows, kRows);
  auto sums = scratch.take<double>(parts * shape.heads);
  parallel_for(parts * shape.heads, [&](std::int64_t task) {
    const std::int64_t h = task % shape.heads, first = task / shape.heads * kRows;
    double sum = 0;
    for (std::int64_t t = first; t < std::min(first + kRows, out.rows); ++t) {
      const std::int64_t at = h * shape.head_dim;
      const float p = std::exp(shape.sinks[h] - lse.row(t)[h]);
      sum -= static_cast<double>(p * loops().dot(dout.row(t) + at, out.row(t) + at, shape.head_dim));
    }
    sums[static_cast<std::size_t>(task)] = sum;
  });
  for (std::int64_t task = 0; task < parts * shape.heads && !dry_run(); ++task)
    dsinks[task % shape.heads] += static_cast<float>(sums[static_cast<std::size_t>(task)]);
}

// Without the instruction set's implementation, whose use would depend on the number of rows.
void attention_tail(const AttentionShape& shape, ConstMat q, ConstMat k, ConstMat v, Mat out, Mat lse) {
  ProfileScope profiled("attention");
  const std::int64_t e = shape.head_dim, before = k.rows - q.rows;
  DML_CHECK(q.cols == shape.heads * e && k.cols == shape.kv_heads * e && v.cols == k.cols && out.cols == q.cols);
  DML_CHECK(before >= 0 && v.rows == k.rows && out.rows == q.rows && lse.rows == q.rows && lse.cols == shape.heads);
  const std::int64_t at_once = kQueries;
  parallel_for(ceil_div(q.rows, at_once) * shape.heads, [&](std::int64_t task) {
    const std::int64_t head = task % shape.heads, first = task / shape.heads * at_once;
    rows_of_a_head({shape, q, k, v, out, lse, head, 0, before + first, std::min(at_once, q.rows - first), before});
  });
  if (shape.sinks) add_sinks(shape, out, lse);
}

// Every cache is split into fixed runs of keys; the results of runs, (max, sum, weighted values) per head, are combined
// in order.
namespace {

// Combines the results (max, sum, values) of a query's runs of keys, [first_run[i], first_run[i + 1]).
void combine_runs(const AttentionShape& shape, std::span<const CachedQuery> queries,
                  std::span<const std::int64_t> first_run, ConstMat part) {
  parallel_ranges(std::ssize(queries) * shape.heads, shape.heads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t j = first; j < last; ++j) {
      const std::int64_t i = j / shape.heads, head = j % shape.heads;
      float top = shape.sinks ? shape.sinks[head] : -std::numeric_limits<float>::infinity(), sum = 0;
      for (std::int64_t run = first_run[i]; run < first_run[i + 1]; ++run)
        top = std::max(top, part.row(run * shape.heads + head)[0]);
      if (shape.sinks) sum = std::exp(shape.sinks[head] - top);
      float* o = queries[i].out + head * shape.head_dim;
      std::fill(o, o + shape.head_dim, 0.f);
      for (std::int64_t run = first_run[i]; run < first_run[i + 1]; ++run) {
        const float* p = part.row(run * shape.heads + head);
        float weight = std::exp(p[0] - top);
        sum += weight * p[1];
        loops().add_scaled(p + 2, weight, o, shape.head_dim);
      }
      loops().set_scaled(o, 1 / sum, o, shape.head_dim);
    }
  });
}

}  // namespace

void attention_decode(const AttentionShape& shape, std::span<const CachedQuery> queries, Arena& scratch) {
  ProfileScope profiled("attention_decode");
  constexpr std::int64_t kRun = 512;
  const std::int64_t e = shape.head_dim, group = shape.heads / shape.kv_heads, count = std::ssize(queries);
  Arena::Scope scope(scratch);
  auto begin_of = [&](const CachedQuery& c) {
    return shape.window > 0 ? std::max<std::int64_t>(0, c.keys.rows - shape.window) : 0;
  };
  auto first_run = scratch.take<std::int64_t>(count + 1);
  std::int64_t runs = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const CachedQuery& c = queries[static_cast<std::size_t>(i)];
    DML_CHECK(c.keys.heads == shape.kv_heads && c.keys.head_dim == e && c.values.rows == c.keys.rows &&
              c.keys.rows > 0);
    if (!dry_run()) first_run[i] = runs;
    runs += ceil_div(c.keys.rows - begin_of(c), kRun);
  }
  if (!dry_run()) first_run[count] = runs;
  Mat part = scratch.matrix(runs * shape.heads, e + 2);  // per run and head: max, sum, values

  parallel_for(runs * shape.kv_heads, [&](std::int64_t task) {
    const Loops& loop = loops();
    const std::int64_t run = task / shape.kv_heads, kv = task % shape.kv_heads;
    const std::int64_t i = std::upper_bound(first_run.begin(), first_run.end(), run) - first_run.begin() - 1;
    const CachedQuery& c = queries[i];
    const std::int64_t first = begin_of(c) + (run - first_run[i]) * kRun, keys = std::min(kRun, c.keys.rows - first);
    float* s = thread_scratch(group * kRun + kRun * e).data();
    // The rows of one head; a dense float32 copy if they are not contiguous float32.
    auto rows_of = [&](const CachedRows& cache) -> ConstMat {
      if (cache.dtype == DType::f32 && cache.contiguous(first, keys))
        return {reinterpret_cast<const float*>(cache.data) + cache.place(first) * cache.width() + kv * e, keys,
                cache.width()};
      load_head(cache, kv, first, keys, s + group * kRun);
      return {s + group * kRun, keys, e};
    };
    Mat mine = part.slice(run * shape.heads + kv * group, group);
    ConstMat k = rows_of(c.keys);
    loop.dot_block(group, keys, e, c.q + kv * group * e, e, k.data, k.cols, s, kRun, false);
    for (std::int64_t g = 0; g < group; ++g) {
      float* row = s + g * kRun;
      loop.set_scaled(row, shape.scale, row, keys);
      for (std::int64_t j = 0; shape.slopes && j < keys; ++j)
        row[j] -= shape.slopes[kv * group + g] * static_cast<float>(c.keys.rows - 1 - first - j);
      if (shape.softcap > 0) loop.softcap(row, keys, shape.softcap);
      RowStats stats = loop.row_stats(row, keys);
      mine.row(g)[0] = stats.max;
      mine.row(g)[1] = static_cast<float>(stats.sum);
      loop.exp_shifted(row, keys, stats.max);
    }
    ConstMat v = rows_of(c.values);
    loop.small_gemm(group, e, keys, s, kRun, 1, v.data, v.cols, 1, mine.data + 2, mine.cols, false);
  });
  combine_runs(shape, queries, first_run, part);
}

}  // namespace dml::kernels
