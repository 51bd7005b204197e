#include "kernels/dora.h"

#include <cmath>

#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"

namespace dml::kernels {
namespace {

constexpr std::int64_t kNormRows = 16, kNormCols = 256, kTaskTokens = 128;

}  // namespace

void dora_norms(const Weight& w, ConstMat a, ConstMat b, float scale, float* norms) {
  ProfileScope profiled("dora_norms");
  parallel_ranges(w.rows, kNormRows, [&](std::int64_t first, std::int64_t last) {
    double sums[kNormRows] = {};
    float panel[kNormRows * kNormCols];
    for (std::int64_t col = 0; col < w.cols; col += kNormCols) {
      std::int64_t width = std::min(kNormCols, w.cols - col);
      unpack(w, first, last - first, col, width, panel);
      for (std::int64_t n = first; n < last; ++n) {
        float* row = panel + (n - first) * width;
        for (std::int64_t r = 0; r < a.rows; ++r) {
          float weight = scale * b.row(n)[r];
          const float* ar = a.row(r) + col;
          for (std::int64_t k = 0; k < width; ++k) row[k] += weight * ar[k];
        }
        double sum = 0;
        for (std::int64_t k = 0; k < width; ++k) sum += static_cast<double>(row[k]) * row[k];
        sums[n - first] += sum;
      }
    }
    for (std::int64_t n = first; n < last; ++n) norms[n] = static_cast<float>(std::sqrt(sums[n - first]));
  });
}

void dora_scale(const float* magnitude, const float* norms, Mat y) {
  ProfileScope profiled("dora_scale");
  parallel_ranges(y.rows, kTaskTokens, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t)
      for (std::int64_t n = 0; n < y.cols; ++n) y.row(t)[n] *= magnitude[n] / norms[n];
  });
}

void dora_magnitude_backward(ConstMat dy, ConstMat plain, const float* norms, float* dmagnitude, Arena& scratch) {
  ProfileScope profiled("dora_magnitude_backward");
  Arena::Scope scope(scratch);
  std::int64_t blocks = ceil_div(dy.rows, kTaskTokens);
  Mat partial = scratch.matrix(blocks, dy.cols);
  parallel_for(blocks, [&](std::int64_t i) {
    float* sum = partial.row(i);
    for (std::int64_t n = 0; n < dy.cols; ++n) sum[n] = 0;
    for (std::int64_t t = i * kTaskTokens; t < std::min(dy.rows, (i + 1) * kTaskTokens); ++t)
      for (std::int64_t n = 0; n < dy.cols; ++n) sum[n] += dy.row(t)[n] * plain.row(t)[n];
  });
  parallel_ranges(dy.cols, 1024, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t n = first; n < last; ++n) {
      float sum = 0;
      for (std::int64_t i = 0; i < blocks; ++i) sum += partial.row(i)[n];
      dmagnitude[n] += sum / norms[n];
    }
  });
}

}  // namespace dml::kernels
