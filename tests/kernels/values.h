// Random matrices for tests of kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "core/matrix.h"
#include "core/random.h"

namespace dml::kernels {

inline std::vector<float> values(std::size_t n, std::uint64_t seed, float spread = 1) {
  Random random(seed, Purpose::noise);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = spread * random.normal(i);
  return x;
}
inline Mat mat(std::vector<float>& x, std::int64_t rows, std::int64_t cols) { return {x.data(), rows, cols}; }

}  // namespace dml::kernels
