// The logistic function and its logarithms, exact for arguments of any size.
#pragma once

#include <algorithm>
#include <cmath>

namespace dml {

inline double sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

/// log σ(x) = −softplus(−x); its derivative is σ(−x).
inline double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

/// log(1 − eˣ) for x < 0.
inline double log_one_minus_exp(double x) {
  constexpr double kLogHalf = -0.6931471805599453;
  return x > kLogHalf ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

}  // namespace dml
