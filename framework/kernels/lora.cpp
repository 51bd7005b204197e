#include "kernels/lora.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

// Rows of one task where the width is summed over: a multiple of the 14 and 6 rows of a register block, or nearly.
constexpr std::int64_t kRows = 28;
constexpr std::int64_t kCols = 256;  // columns of one task where the result is wide
constexpr std::int64_t kTallRows = 1024;
constexpr std::int64_t kFewRows = 8;
// Where tokens are summed over, in ranges of at least kFewestTokens: a few are met at a time, which stay in the caches. More
// of them where another product meets them first.
constexpr std::int64_t kFewestTokens = 64, kMostRanges = 32, kTokensOfTwo = 32, kTokensOfOne = 16;
constexpr std::int64_t kNarrow = 112;  // columns at once: a register block's 14 rows, eight times

template <class F>
void each_tile(std::int64_t rows, std::int64_t row_tile, std::int64_t cols, std::int64_t col_tile, F tile) {
  std::int64_t across = (cols + col_tile - 1) / col_tile, down = (rows + row_tile - 1) / row_tile;
  parallel_for(down * across, [&](std::int64_t i) {
    std::int64_t r = i / across * row_tile, c = i % across * col_tile;
    tile(r, std::min(row_tile, rows - r), c, std::min(col_tile, cols - c));
  });
}

// to (T,R) = alpha · x (T,K) · b (K,R) on this thread.
void narrow_product(ConstMat x, const float* b, float alpha, Mat to) {
  // Rows a multiple of 4 kB apart fall into one set of the first-level cache, which holds eight lines of it or a few more.
  const std::int64_t together = x.cols % 1024 == 0 ? 8 : kRows;
  for (std::int64_t t = 0; t < x.rows; t += together)
    loops().small_gemm(std::min(together, x.rows - t), to.cols, x.cols, x.row(t), x.cols, 1, b, to.cols, alpha,
                       to.row(t), to.cols, false);
}

// Sums wideᵀ (W,T) · thin (T,R) over tokens. A task is a range of them with a sum of its own, so that it walks through memory
// in order; the sums are added in order. T and R alone decide the ranges, each at least 2 R long: many sums take half as much
// memory as `wide`, one takes W · R. Their number never falls as T rises (kFewestTokens > kMostRanges).
class TokenSum {
 public:
  TokenSum(ConstMat wide, ConstMat thin, Arena& scratch)
      : wide_(wide),
        thin_(thin),
        range_(std::max({kFewestTokens, 2 * thin.cols, (wide.rows + kMostRanges - 1) / kMostRanges})),
        ranges_((wide.rows + range_ - 1) / range_),
        sums_(scratch.matrix(ranges_ * wide.cols, thin.cols)) {}

  // Calls before(first, count) for the next few tokens, `step` at most, before they are summed.
  template <class F>
  void sum(float alpha, std::int64_t step, F before) const {
    const std::int64_t width = wide_.cols, rank = thin_.cols;
    parallel_for(ranges_, [&](std::int64_t i) {
      const std::int64_t first = i * range_, last = std::min(first + range_, wide_.rows);
      for (std::int64_t t = first; t < last; t += step) {
        const std::int64_t tokens = std::min(step, last - t);
        before(t, tokens);
        for (std::int64_t w = 0; w < width; w += kNarrow)
          loops().small_gemm(std::min(kNarrow, width - w), rank, tokens, wide_.row(t) + w, 1, width, thin_.row(t), rank,
                             alpha, sums_.row(i * width + w), rank, t > first);
      }
    });
  }

  // Calls add(first, rows): the rows of the whole sum from `first` on.
  template <class F>
  void finish(F add) const {
    const std::int64_t width = wide_.cols, rank = thin_.cols;
    parallel_ranges(width, kNarrow, [&](std::int64_t first, std::int64_t last) {
      Mat whole = sums_.slice(first, last - first);
      for (std::int64_t i = 1; i < ranges_; ++i)
        loops().add_scaled(sums_.row(i * width + first), 1, whole.data, whole.rows * rank);
      add(first, whole);
    });
  }

 private:
  ConstMat wide_, thin_;
  std::int64_t range_, ranges_;
  Mat sums_;
};

}  // namespace

void lora_down(ConstMat x, ConstMat a, Mat down, Rows rows) {
  ProfileScope profiled("lora_down", 2.0 * static_cast<double>(x.size()) * static_cast<double>(a.rows));
  DML_CHECK(x.cols == a.cols && down.rows == x.rows && down.cols == a.rows);
  if (dry_run()) return;
  std::int64_t rank = a.rows;
  if (rows == Rows::dots || (rows == Rows::by_count && x.rows <= kFewRows))  // not worth turning A around
    return parallel_ranges(rank, 4, [&](std::int64_t first, std::int64_t last) {
      loops().dot_block(x.rows, last - first, x.cols, x.data, x.cols, a.row(first), a.cols, down.data + first, rank,
                        false);
    });
  float* at = thread_scratch(rank * a.cols).data();  // the caller's own; the tasks only read it
  parallel_ranges(a.cols, kCols, [&](std::int64_t first, std::int64_t last) {
    loops().transpose(rank, last - first, a.data + first, a.cols, 1, at + first * rank, rank);
  });
  parallel_ranges(x.rows, kRows, [&](std::int64_t first, std::int64_t last) {
    narrow_product(x.slice(first, last - first), at, 1, down.slice(first, last - first));
  });
}

void lora_up(ConstMat down, ConstMat b, float scale, Mat y) {
  ProfileScope profiled("lora_up", 2.0 * static_cast<double>(y.size()) * static_cast<double>(b.cols));
  DML_CHECK(down.cols == b.cols && y.rows == down.rows && y.cols == b.rows);
  std::int64_t rank = b.cols;
  each_tile(y.rows, kTallRows, y.cols, kCols,
            [&](std::int64_t t, std::int64_t rows, std::int64_t n, std::int64_t cols) {
              float* bt = thread_scratch(rank * cols).data();
              loops().transpose(cols, rank, b.row(n), rank, 1, bt, cols);
              loops().small_gemm(rows, cols, rank, down.row(t), rank, 1, bt, cols, scale, y.row(t) + n, y.cols, true);
            });
}

void lora_up_backward(ConstMat dy, ConstMat down, ConstMat b, float scale, Mat ddown, Mat db, Arena& scratch) {
  ProfileScope profiled("lora_up_backward",
                        2.0 * static_cast<double>(dy.size()) * static_cast<double>(b.cols) * (db.empty() ? 1 : 2));
  DML_CHECK(dy.cols == b.rows && (db.empty() || db.rows == b.rows) && ddown.rows == dy.rows && ddown.cols == b.cols);
  auto product = [&](std::int64_t first, std::int64_t count) {
    narrow_product(dy.slice(first, count), b.data, scale, ddown.slice(first, count));
  };
  if (db.empty())
    return parallel_ranges(dy.rows, kRows,
                           [&](std::int64_t first, std::int64_t last) { product(first, last - first); });
  Arena::Scope scope(scratch);
  TokenSum tokens(dy, down, scratch);
  tokens.sum(scale, kTokensOfTwo, product);
  tokens.finish(
      [&](std::int64_t first, ConstMat rows) { loops().add_scaled(rows.data, 1, db.row(first), rows.size()); });
}

void lora_down_backward(ConstMat ddown, ConstMat x, ConstMat a, Mat dx, Mat da, Arena& scratch) {
  ProfileScope profiled("lora_down_backward", 2.0 * static_cast<double>((da.empty() ? 0 : x.size()) + dx.size()) *
                                                  static_cast<double>(a.rows));
  DML_CHECK(ddown.cols == a.rows && x.cols == a.cols && x.rows == ddown.rows && (da.empty() || da.rows == a.rows));
  std::int64_t rank = a.rows;
  if (!dx.empty())
    each_tile(
        dx.rows, kTallRows, dx.cols, kCols, [&](std::int64_t t, std::int64_t rows, std::int64_t k, std::int64_t cols) {
          float* block = thread_scratch(rank * cols).data();
          loops().copy_block(rank, cols, a.data + k, a.cols, block);
          loops().small_gemm(rows, cols, rank, ddown.row(t), rank, 1, block, cols, 1, dx.row(t) + k, dx.cols, true);
        });
  if (da.empty()) return;
  Arena::Scope scope(scratch);
  TokenSum tokens(x, ddown, scratch);
  tokens.sum(1, kTokensOfOne, [](std::int64_t, std::int64_t) {});
  tokens.finish([&](std::int64_t first, ConstMat rows) {
    float* turned = thread_scratch(rows.size()).data();
    loops().transpose(rows.rows, rank, rows.data, rank, 1, turned, rows.rows);
    for (std::int64_t r = 0; r < rank; ++r) loops().add_scaled(turned + r * rows.rows, 1, da.row(r) + first, rows.rows);
  });
}

}  // namespace dml::kernels
