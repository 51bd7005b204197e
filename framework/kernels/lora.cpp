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
constexpr std::int64_t kDepth = 128;   // tokens of one packed block where tokens are summed over
constexpr std::int64_t kNarrow = 112;  // a register block's 14 rows, eight times

template <class F>
void each_tile(std::int64_t rows, std::int64_t row_tile, std::int64_t cols, std::int64_t col_tile, F tile) {
  std::int64_t across = (cols + col_tile - 1) / col_tile, down = (rows + row_tile - 1) / row_tile;
  parallel_for(down * across, [&](std::int64_t i) {
    std::int64_t r = i / across * row_tile, c = i % across * col_tile;
    tile(r, std::min(row_tile, rows - r), c, std::min(col_tile, cols - c));
  });
}

}  // namespace

void lora_down(ConstMat x, ConstMat a, Mat down) {
  ProfileScope profiled("lora_down", 2.0 * static_cast<double>(x.size()) * static_cast<double>(a.rows));
  DML_CHECK(x.cols == a.cols && down.rows == x.rows && down.cols == a.rows);
  if (dry_run()) return;
  std::int64_t rank = a.rows;
  if (x.rows <= kFewRows)  // not worth turning A around
    return parallel_ranges(rank, 4, [&](std::int64_t first, std::int64_t last) {
      loops().dot_block(x.rows, last - first, x.cols, x.data, x.cols, a.row(first), a.cols, down.data + first, rank,
                        false);
    });
  float* at = thread_scratch(rank * a.cols).data();  // the caller's own; the tasks only read it
  parallel_ranges(a.cols, kCols, [&](std::int64_t first, std::int64_t last) {
    loops().transpose(rank, last - first, a.data + first, a.cols, 1, at + first * rank, rank);
  });
  parallel_ranges(x.rows, kRows, [&](std::int64_t first, std::int64_t last) {
    loops().small_gemm(last - first, rank, x.cols, x.row(first), x.cols, 1, at, rank, 1, down.row(first), rank, false);
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

void lora_up_backward(ConstMat dy, ConstMat down, ConstMat b, float scale, Mat ddown, Mat db, Arena&) {
  ProfileScope profiled("lora_up_backward", 4.0 * static_cast<double>(dy.size()) * static_cast<double>(b.cols));
  DML_CHECK(dy.cols == b.rows && (db.empty() || db.rows == b.rows) && ddown.rows == dy.rows && ddown.cols == b.cols);
  std::int64_t rank = b.cols;
  parallel_ranges(dy.rows, kRows, [&](std::int64_t first, std::int64_t last) {
    loops().small_gemm(last - first, rank, dy.cols, dy.row(first), dy.cols, 1, b.data, rank, scale, ddown.row(first),
                       rank, false);
  });
  if (db.empty()) return;
  parallel_ranges(dy.cols, kNarrow, [&](std::int64_t first, std::int64_t last) {
    std::int64_t cols = last - first;
    float* block = thread_scratch(kDepth * cols).data();
    for (std::int64_t t = 0; t < dy.rows; t += kDepth) {
      std::int64_t depth = std::min(kDepth, dy.rows - t);
      loops().copy_block(depth, cols, dy.row(t) + first, dy.cols, block);
      loops().small_gemm(cols, rank, depth, block, 1, cols, down.row(t), rank, scale, db.row(first), rank, true);
    }
  });
}

void lora_down_backward(ConstMat ddown, ConstMat x, ConstMat a, Mat dx, Mat da, Arena&) {
  ProfileScope profiled("lora_down_backward",
                        2.0 * static_cast<double>(x.size() + dx.size()) * static_cast<double>(a.rows));
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
  parallel_ranges(x.cols, kCols, [&](std::int64_t first, std::int64_t last) {
    std::int64_t cols = last - first;
    float* block = thread_scratch(kDepth * cols).data();
    for (std::int64_t t = 0; t < x.rows; t += kDepth) {
      std::int64_t depth = std::min(kDepth, x.rows - t);
      loops().copy_block(depth, cols, x.row(t) + first, x.cols, block);
      loops().small_gemm(rank, cols, depth, ddown.row(t), 1, rank, block, cols, 1, da.data + first, da.cols, true);
    }
  });
}

}  // namespace dml::kernels
