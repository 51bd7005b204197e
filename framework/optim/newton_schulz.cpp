#include "optim/newton_schulz.h"

#include "kernels/gemm.h"
#include "optim/elementwise.h"

namespace dml {
namespace {

constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

/// to (cols, rows) = fromᵀ
void transpose(ConstMat from, Mat to) {
  parallel_for(to.rows, [=](std::int64_t j) {
    for (std::int64_t i = 0; i < from.rows; ++i) to.row(j)[i] = from.row(i)[j];
  });
}

}  // namespace

std::int64_t newton_schulz_floats(std::int64_t rows, std::int64_t cols) {
  const std::int64_t least = std::min(rows, cols);
  return (rows > cols ? 2 : 1) * rows * cols + 2 * least * least;
}

void newton_schulz(Mat given, int steps, float* memory) {
  const double squares = sum_in_order(given.size(), [=](std::int64_t i) { return given.data[i] * given.data[i]; });
  const float factor = as_float(1 / (std::sqrt(squares) + 1e-7));
  const bool tall = given.rows > given.cols;
  const std::int64_t rows = std::min(given.rows, given.cols), cols = std::max(given.rows, given.cols);
  auto take = [&](std::int64_t r, std::int64_t c) {
    Mat m{memory, r, c};
    memory += r * c;
    return m;
  };
  Mat x = tall ? take(rows, cols) : given, product = take(rows, cols), a = take(rows, rows), b = take(rows, rows);
  if (tall) transpose(given, x);
  each_element(x.size(), [=](std::int64_t i) { x.data[i] *= factor; });
  for (int step = 0; step < steps; ++step) {
    kernels::gemm_nt(x, kernels::weight_of(x), a, Write::set);  // XXᵀ
    kernels::gemm_nt(a, kernels::weight_of(a), b, Write::set);  // A is symmetric: AAᵀ = A²
    each_element(a.size(), [=](std::int64_t i) { b.data[i] = kB * a.data[i] + kC * b.data[i]; });
    kernels::gemm_nn(b, kernels::weight_of(x), product, Write::set);
    each_element(x.size(), [=](std::int64_t i) { x.data[i] = kA * x.data[i] + product.data[i]; });
  }
  if (tall) transpose(x, given);
}

}  // namespace dml
