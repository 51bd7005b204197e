#include "kernels/norm.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"
#include "kernels/element_tasks.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kBlocks = 32;  // maximum number of partial sums of the weight's gradient

// Runs backward(row, dw, db) over all rows. Gradients of weights are summed per block of rows, then over blocks in
// order.
template <class F>
void backward_rows(ConstMat x, float* dw, float* db, Arena& scratch, F backward) {
  std::int64_t d = x.cols, grain = rows_per_task(d);
  if (!dw && !db)
    return parallel_ranges(x.rows, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t t = first; t < last; ++t) backward(t, nullptr, nullptr);
    });
  Arena::Scope scope(scratch);
  // Memory for the largest number of blocks of any smaller number of rows: plans assume that more rows never need less
  // memory.
  Mat partial = scratch.matrix(std::min(kBlocks, ceil_div(x.rows, grain)), 2 * d);
  grain = std::max(grain, ceil_div(x.rows, kBlocks));
  std::int64_t blocks = ceil_div(x.rows, grain);
  parallel_ranges(x.rows, grain, [&](std::int64_t first, std::int64_t last) {
    float* own = partial.row(first / grain);
    std::memset(own, 0, static_cast<std::size_t>(2 * d) * sizeof(float));
    for (std::int64_t t = first; t < last; ++t) backward(t, dw ? own : nullptr, db ? own + d : nullptr);
  });
  parallel_ranges(d, 256, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = 0; i < blocks; ++i) {
      if (dw) loops().add_scaled(partial.row(i) + first, 1, dw + first, last - first);
      if (db) loops().add_scaled(partial.row(i) + d + first, 1, db + first, last - first);
    }
  });
}

}  // namespace

void rms_norm(ConstMat x, const float* w, float offset, float eps, Mat y) {
  ProfileScope profiled("rms_norm");
  DML_CHECK(x.rows == y.rows && x.cols == y.cols);
  parallel_ranges(x.rows, rows_per_task(x.cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) loops().rms_norm(x.row(t), w, offset, eps, x.cols, y.row(t));
  });
}

void rms_norm_backward(ConstMat dy, ConstMat x, const float* w, float offset, float eps, Mat dx, Write mode, float* dw,
                       Arena& scratch) {
  ProfileScope profiled("rms_norm_backward");
  DML_CHECK(dy.rows == x.rows && dy.cols == x.cols && dx.rows == x.rows && dx.cols == x.cols);
  backward_rows(x, dw, nullptr, scratch, [&](std::int64_t t, float* own_dw, float*) {
    loops().rms_norm_backward(dy.row(t), x.row(t), w, offset, eps, x.cols, dx.row(t), mode == Write::add, own_dw);
  });
}

void layer_norm(ConstMat x, const float* w, const float* b, float offset, float eps, Mat y) {
  ProfileScope profiled("layer_norm");
  DML_CHECK(x.rows == y.rows && x.cols == y.cols);
  parallel_ranges(x.rows, rows_per_task(x.cols), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) loops().layer_norm(x.row(t), w, b, offset, eps, x.cols, y.row(t));
  });
}

void layer_norm_backward(ConstMat dy, ConstMat x, const float* w, float offset, float eps, Mat dx, Write mode,
                         float* dw, float* db, Arena& scratch) {
  ProfileScope profiled("layer_norm_backward");
  DML_CHECK(dy.rows == x.rows && dy.cols == x.cols && dx.rows == x.rows && dx.cols == x.cols);
  backward_rows(x, dw, db, scratch, [&](std::int64_t t, float* own_dw, float* own_db) {
    loops().layer_norm_backward(dy.row(t), x.row(t), w, offset, eps, x.cols, dx.row(t), mode == Write::add, own_dw,
                                own_db);
  });
}

}  // namespace dml::kernels
