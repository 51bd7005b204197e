#include "kernels/quant_int8.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {

void quantize_row_int8(const float* x, std::int64_t n, std::int8_t* q, float* scale) {
  float most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(x[i]));
  *scale = most / 127;
  const float inverse = most > 0 ? 127 / most : 0;
  for (std::int64_t i = 0; i < n; ++i) q[i] = static_cast<std::int8_t>(std::lrint(x[i] * inverse));
}

void quantize_int8(ConstMat x, std::span<std::int8_t> q, std::span<float> scales) {
  DML_CHECK(static_cast<std::int64_t>(q.size()) == x.size() && static_cast<std::int64_t>(scales.size()) == x.rows);
  parallel_for(x.rows, [&](std::int64_t r) {
    quantize_row_int8(x.row(r), x.cols, q.data() + r * x.cols, &scales[static_cast<std::size_t>(r)]);
  });
}

}  // namespace dml::kernels
