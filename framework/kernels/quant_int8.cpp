#include "kernels/quant_int8.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {

void quantize_int8(ConstMat x, std::span<std::int8_t> q, std::span<float> scales) {
  DML_CHECK(static_cast<std::int64_t>(q.size()) == x.size() && static_cast<std::int64_t>(scales.size()) == x.rows);
  parallel_for(x.rows, [&](std::int64_t r) {
    const float* row = x.row(r);
    float most = 0;
    for (std::int64_t i = 0; i < x.cols; ++i) most = std::max(most, std::fabs(row[i]));
    scales[static_cast<std::size_t>(r)] = most / 127;
    float inverse = most > 0 ? 127 / most : 0;
    for (std::int64_t i = 0; i < x.cols; ++i)
      q[static_cast<std::size_t>(r * x.cols + i)] = static_cast<std::int8_t>(std::lrint(row[i] * inverse));
  });
}

}  // namespace dml::kernels
