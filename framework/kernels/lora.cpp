#include "kernels/lora.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"
#include "kernels/lora_packed.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

// Rows of a task that sums over the width: nearly a multiple of the 14 or 6 rows of a register block.
constexpr std::int64_t kRows = 28;
constexpr std::int64_t kCols = 256;  // columns of a task whose result is wide
constexpr std::int64_t kTallRows = 1024;
constexpr std::int64_t kFewRows = 8, kDots = 4;
// Products that sum over tokens split them into ranges of at least kMinTokens, and process a few tokens at a time,
// which stay in the caches; more if another product has just read them.
constexpr std::int64_t kMinTokens = 64, kMaxRanges = 32, kTokensOfTwo = 32, kTokensOfOne = 16;
constexpr std::int64_t kNarrow = 112;  // columns at a time: eight register blocks of 14 rows
constexpr std::int64_t kSummed = 28;   // rows of the total that a task sums

// Calls tile(entry, first row, rows, first column, columns) for the tiles of a matrix of each entry.
template <class T, class Matrix, class F>
void each_tile(const TaskList<T>& all, std::int64_t row_tile, std::int64_t col_tile, Matrix matrix, F tile) {
  auto tiles = [&](const T& entry) {
    const Mat m = matrix(entry);
    return m.empty() ? 0 : ceil_div(m.cols, col_tile) * ceil_div(m.rows, row_tile);
  };
  parallel_tiles(all, tiles, [&](const T& entry, TileIndex at) {
    const Mat m = matrix(entry);
    const std::int64_t across = ceil_div(m.cols, col_tile), r = at.i / across * row_tile, c = at.i % across * col_tile;
    tile(entry, r, std::min(row_tile, m.rows - r), c, std::min(col_tile, m.cols - c));
  });
}

// to (T,R) = alpha · x (T,K) · b (K,R), on the calling thread.
void narrow_product(ConstMat x, const float* b, float alpha, Mat to) {
  // Rows at distances of a multiple of 4 kB share one set of the first-level cache, which has eight ways or a few more.
  const std::int64_t together = x.cols % 1024 == 0 ? 8 : kRows;
  for (std::int64_t t = 0; t < x.rows; t += together)
    loops().small_gemm(std::min(together, x.rows - t), to.cols, x.cols, x.row(t), x.cols, 1, b, to.cols, alpha,
                       to.row(t), to.cols, false);
}

// Computes wideᵀ (W,T) · thin (T,R), sums over tokens, for several terms at once. A task sums a range of a term's
// tokens, so that it reads memory sequentially; then the partial sums are added in order. The ranges depend on T and R
// only and have at least 2 R tokens, so all partial sums take at most half the memory of `wide`. Their number never
// decreases with T (kMinTokens > kMaxRanges).
struct Term {
  ConstMat wide, thin;
  float alpha = 1;
};
class TokenSums {
 public:
  TokenSums(const TaskList<Term>& terms, Arena& scratch)
      : terms_(terms), firsts_(scratch.take<std::int64_t>(terms.size())) {
    std::int64_t all = 0, largest = 0;
    for (std::int64_t i = 0; i < terms.size(); ++i) {
      const Term t = terms[i];
      if (!dry_run()) firsts_[static_cast<std::size_t>(i)] = all;
      all += ranges(t);
      size_ = std::max(size_, t.wide.cols * t.thin.cols);
      largest = std::max(largest, t.wide.rows);
      fewest_ = std::max(fewest_, 2 * t.thin.cols);
    }
    // The largest number of ranges for any division of the rows among terms.
    if (dry_run()) all = std::min(kMaxRanges * terms.size(), (largest + terms.size() * (fewest_ - 1)) / fewest_);
    sums_ = scratch.take<float>(all * size_).data();
  }

  // Whether there are at least as many ranges as threads.
  bool enough() const { return terms_.total(ranges) >= threads(); }

  // Computes the partial sums. Calls before(term, first, count) for every group of at most `step` tokens before it is
  // summed.
  template <class F>
  void sum(std::int64_t step, F before) const {
    parallel_tiles(terms_, ranges, [&](const Term& term, TileIndex at) {
      add_range(term, at.i, {0, term.wide.cols}, step, at.number,
                [&](std::int64_t t, std::int64_t tokens) { before(at.entry, t, tokens); });
    });
  }
  // Computes the same partial sums by tasks of some columns each, as many as occupy all threads.
  void sum(std::int64_t step) const {
    constexpr std::int64_t kTasksOfThread = 4;
    const std::int64_t parts = ceil_div(kTasksOfThread * threads(), std::max<std::int64_t>(1, terms_.total(ranges)));
    auto cols = [parts](const Term& t) { return ceil_div(ceil_div(t.wide.cols, parts), kNarrow) * kNarrow; };
    auto tiles = [cols](const Term& t) { return ranges(t) > 0 ? ranges(t) * ceil_div(t.wide.cols, cols(t)) : 0; };
    parallel_tiles(terms_, tiles, [&](const Term& term, TileIndex at) {
      const std::int64_t across = ceil_div(term.wide.cols, cols(term)), first = at.i % across * cols(term);
      add_range(term, at.i / across, {first, std::min(first + cols(term), term.wide.cols)}, step,
                first_range(at.entry) + at.i / across, [](std::int64_t, std::int64_t) {});
    });
  }

  // Adds the partial sums; calls add(term, first, rows) with rows of a term's total from `first` on.
  template <class F>
  void finish(F add) const {
    auto tiles = [](const Term& term) { return term.wide.rows > 0 ? ceil_div(term.wide.cols, kSummed) : 0; };
    parallel_tiles(terms_, tiles, [&](const Term& term, TileIndex at) {
      const std::int64_t rank = term.thin.cols, first = at.i * kSummed;
      float* own = sums_ + first_range(at.entry) * size_ + first * rank;
      const Mat whole{own, std::min(kSummed, term.wide.cols - first), rank};
      for (std::int64_t r = 1; r < ranges(term); ++r) loops().add_scaled(own + r * size_, 1, whole.data, whole.size());
      add(at.entry, first, whole);
    });
  }

 private:
  static std::int64_t range(const Term& t) {
    return std::max({kMinTokens, 2 * t.thin.cols, ceil_div(t.wide.rows, kMaxRanges)});
  }
  static std::int64_t ranges(const Term& t) { return ceil_div(t.wide.rows, range(t)); }
  std::int64_t first_range(std::int64_t term) const { return firsts_[static_cast<std::size_t>(term)]; }

  // Sums some columns of range i of a term, which has the index `number` among all ranges.
  struct Columns {
    std::int64_t first, end;
  };
  template <class F>
  void add_range(const Term& term, std::int64_t i, Columns cols, std::int64_t step, std::int64_t number,
                 F before) const {
    const std::int64_t width = term.wide.cols, rank = term.thin.cols;
    const std::int64_t first = i * range(term), last = std::min(first + range(term), term.wide.rows);
    for (std::int64_t t = first; t < last; t += step) {
      const std::int64_t tokens = std::min(step, last - t);
      before(t, tokens);
      for (std::int64_t w = cols.first; w < cols.end; w += kNarrow)
        loops().small_gemm(std::min(kNarrow, cols.end - w), rank, tokens, term.wide.row(t) + w, 1, width,
                           term.thin.row(t), rank, term.alpha, sums_ + number * size_ + w * rank, rank, t > first);
    }
  }

  const TaskList<Term>& terms_;
  std::span<std::int64_t> firsts_;  // the index of each term's first range
  std::int64_t size_ = 0, fewest_ = kMinTokens;
  float* sums_ = nullptr;
};

template <class T, class F>
double operations_of(const TaskList<T>& adapters, F operations) {
  return profiling ? adapters.total([&](const T& a) { return 2 * static_cast<double>(operations(a)); }) : 0;
}

}  // namespace

void lora_down(const TaskList<AdapterDown>& adapters, Arena& scratch, RowMethod rows) {
  ProfileScope profiled("lora_down", operations_of(adapters, [](auto& d) { return d.x.size() * d.a.rows; }));
  for (std::int64_t i = 0; i < adapters.size(); ++i) {
    const AdapterDown d = adapters[i];
    DML_CHECK(d.x.cols == d.a.cols && d.down.rows == d.x.rows && d.down.cols == d.a.rows);
  }
  auto as_dots = [&](const AdapterDown& d) {  // too few rows to transpose A
    return rows == RowMethod::dots || (rows == RowMethod::by_count && d.x.rows <= kFewRows);
  };
  auto dots = [&](const AdapterDown& d) { return as_dots(d) && d.x.rows > 0 ? ceil_div(d.a.rows, kDots) : 0; };
  parallel_tiles(adapters, dots, [&](const AdapterDown& d, TileIndex at) {
    const std::int64_t first = at.i * kDots, count = std::min(kDots, d.a.rows - first);
    loops().dot_block(d.x.rows, count, d.x.cols, d.x.data, d.x.cols, d.a.row(first), d.a.cols, d.down.data + first,
                      d.a.rows, false);
  });
  if (packs_adapters()) {
    auto others = [&](std::int64_t i) { return as_dots(adapters[i]) ? AdapterDown{} : adapters[i]; };
    return lora_down_packed({adapters.size(), others});
  }
  Arena::Scope scope(scratch);
  auto places = scratch.take<std::int64_t>(adapters.size());
  std::int64_t values = 0;
  for (std::int64_t i = 0; i < adapters.size(); ++i) {
    const AdapterDown d = adapters[i];
    if (!dry_run()) places[static_cast<std::size_t>(i)] = values;
    values += as_dots(d) ? 0 : d.a.size();
  }
  float* transposed = scratch.take<float>(values).data();
  auto transposed_a = [&](TileIndex at) { return transposed + places[static_cast<std::size_t>(at.entry)]; };
  if (values == 0) return;
  auto blocks = [&](const AdapterDown& d) { return as_dots(d) ? 0 : ceil_div(d.a.cols, kCols); };
  parallel_tiles(adapters, blocks, [&](const AdapterDown& d, TileIndex at) {
    const std::int64_t first = at.i * kCols, count = std::min(kCols, d.a.cols - first), rank = d.a.rows;
    loops().transpose(rank, count, d.a.data + first, d.a.cols, 1, transposed_a(at) + first * rank, rank);
  });
  auto products = [&](const AdapterDown& d) { return as_dots(d) ? 0 : ceil_div(d.x.rows, kRows); };
  parallel_tiles(adapters, products, [&](const AdapterDown& d, TileIndex at) {
    const std::int64_t first = at.i * kRows, count = std::min(kRows, d.x.rows - first);
    narrow_product(d.x.slice(first, count), transposed_a(at), 1, d.down.slice(first, count));
  });
}

void lora_up(const TaskList<AdapterUp>& adapters) {
  ProfileScope profiled("lora_up", operations_of(adapters, [](auto& u) { return u.y.size() * u.b.cols; }));
  auto result = [](const AdapterUp& u) {
    DML_CHECK(u.down.cols == u.b.cols && u.y.rows == u.down.rows && u.y.cols == u.b.rows);
    return u.y;
  };
  each_tile(adapters, kTallRows, kCols, result,
            [](const AdapterUp& u, std::int64_t t, std::int64_t rows, std::int64_t n, std::int64_t cols) {
              const std::int64_t rank = u.b.cols;
              float* bt = thread_scratch(rank * cols).data();
              loops().transpose(cols, rank, u.b.row(n), rank, 1, bt, cols);
              loops().small_gemm(rows, cols, rank, u.down.row(t), rank, 1, bt, cols, u.scale, u.y.row(t) + n, u.y.cols,
                                 true);
            });
}

void lora_up_backward(const TaskList<AdapterUpGradient>& adapters, Arena& scratch) {
  ProfileScope profiled("lora_up_backward", operations_of(adapters, [](auto& g) {
                          return g.dy.size() * g.b.cols * (g.db.empty() ? 1 : 2);
                        }));
  bool sums = false;
  for (std::int64_t i = 0; i < adapters.size(); ++i) {
    const AdapterUpGradient g = adapters[i];
    DML_CHECK(g.dy.cols == g.b.rows && (g.db.empty() || g.db.rows == g.b.rows) && g.ddown.rows == g.dy.rows &&
              g.ddown.cols == g.b.cols);
    sums |= !g.db.empty();
  }
  if (packs_adapters()) return lora_up_backward_packed(adapters, scratch);
  auto product = [&](std::int64_t i, std::int64_t first, std::int64_t count) {
    const AdapterUpGradient g = adapters[i];
    narrow_product(g.dy.slice(first, count), g.b.data, g.scale, g.ddown.slice(first, count));
  };
  auto products = [&] {
    parallel_tiles(
        adapters, [](const AdapterUpGradient& g) { return ceil_div(g.dy.rows, kRows); },
        [&](const AdapterUpGradient& g, TileIndex at) {
          product(at.entry, at.i * kRows, std::min(kRows, g.dy.rows - at.i * kRows));
        });
  };
  if (!sums) return products();
  Arena::Scope scope(scratch);
  auto term = [&](std::int64_t i) {
    const AdapterUpGradient g = adapters[i];
    return Term{g.dy, g.down, g.scale};
  };
  const TaskList<Term> terms(adapters.size(), term);
  TokenSums tokens(terms, scratch);
  if (tokens.enough()) {
    tokens.sum(kTokensOfTwo, product);
  } else {  // two passes over dy
    products();
    tokens.sum(kTokensOfTwo);
  }
  tokens.finish([&](std::int64_t i, std::int64_t first, ConstMat rows) {
    if (Mat db = adapters[i].db; !db.empty()) loops().add_scaled(rows.data, 1, db.row(first), rows.size());
  });
}

void lora_down_backward(const TaskList<AdapterDownGradient>& adapters, Arena& scratch) {
  ProfileScope profiled("lora_down_backward", operations_of(adapters, [](auto& g) {
                          return ((g.da.empty() ? 0 : g.x.size()) + g.dx.size()) * g.a.rows;
                        }));
  bool sums = false;
  for (std::int64_t i = 0; i < adapters.size(); ++i) {
    const AdapterDownGradient g = adapters[i];
    DML_CHECK(g.ddown.cols == g.a.rows && g.x.cols == g.a.cols && g.x.rows == g.ddown.rows &&
              (g.da.empty() || g.da.rows == g.a.rows));
    sums |= !g.da.empty();
  }
  if (packs_adapters()) return lora_down_backward_packed(adapters);
  each_tile(
      adapters, kTallRows, kCols, [](const AdapterDownGradient& g) { return g.dx; },
      [](const AdapterDownGradient& g, std::int64_t t, std::int64_t rows, std::int64_t k, std::int64_t cols) {
        const std::int64_t rank = g.a.rows;
        float* block = thread_scratch(rank * cols).data();
        loops().copy_block(rank, cols, g.a.data + k, g.a.cols, block);
        loops().small_gemm(rows, cols, rank, g.ddown.row(t), rank, 1, block, cols, 1, g.dx.row(t) + k, g.dx.cols, true);
      });
  if (!sums) return;
  Arena::Scope scope(scratch);
  auto term = [&](std::int64_t i) {
    const AdapterDownGradient g = adapters[i];
    return Term{g.x, g.ddown};
  };
  const TaskList<Term> terms(adapters.size(), term);
  TokenSums tokens(terms, scratch);
  tokens.sum(kTokensOfOne);
  tokens.finish([&](std::int64_t i, std::int64_t first, ConstMat rows) {
    const Mat da = adapters[i].da;
    float* transposed = thread_scratch(rows.size()).data();
    loops().transpose(rows.rows, rows.cols, rows.data, rows.cols, 1, transposed, rows.rows);
    for (std::int64_t r = 0; r < da.rows; ++r)
      loops().add_scaled(transposed + r * rows.rows, 1, da.row(r) + first, rows.rows);
  });
}

}  // namespace dml::kernels
