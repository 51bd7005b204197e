// A second moment factored into the means of its rows and columns (Shazeer & Stern 2018): 1/√V of a matrix is
// approximated by (R / mean R)^−½ · C^−½, with R (rows) and C (columns).
#pragma once

#include "nn/parameter.h"
#include "optim/elementwise.h"

namespace dml {

/// means[i] = β·means[i] + (1 − β)·mean over j of term(i, j), for rows, and likewise for columns.
template <class F>
void update_factors(const MatrixShape& m, double decay_rate, float* row_means, float* col_means, F term) {
  const std::int64_t rows = m.rows, cols = m.cols;
  const float beta = as_float(decay_rate), fresh = as_float(1 - decay_rate);
  parallel_for(rows, [=](std::int64_t i) {
    double sum = 0;
    for (std::int64_t j = 0; j < cols; ++j) sum += static_cast<double>(term(i, j));
    row_means[i] = beta * row_means[i] + fresh * as_float(sum / static_cast<double>(cols));
  });
  constexpr std::int64_t kColumns = 64;
  parallel_ranges(cols, kColumns, [=](std::int64_t first, std::int64_t last) {
    double sums[kColumns] = {};
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = first; j < last; ++j) sums[j - first] += static_cast<double>(term(i, j));
    for (std::int64_t j = first; j < last; ++j)
      col_means[j] = beta * col_means[j] + fresh * as_float(sums[j - first] / static_cast<double>(rows));
  });
}

/// The factors of 1/√V: element (i, j) is row[i] · col[j].
struct InverseRoot {
  const float *row, *col;
};
/// `memory`: rows + cols floats.
inline InverseRoot inverse_root(const MatrixShape& m, const float* row_means, const float* col_means, float* memory) {
  const double mean = sum_in_order(m.rows, [=](std::int64_t i) { return row_means[i]; }) / static_cast<double>(m.rows);
  float *row = memory, *col = memory + m.rows;
  for (std::int64_t i = 0; i < m.rows; ++i) row[i] = as_float(1 / std::sqrt(static_cast<double>(row_means[i]) / mean));
  for (std::int64_t j = 0; j < m.cols; ++j) col[j] = as_float(1 / std::sqrt(static_cast<double>(col_means[j])));
  return {row, col};
}

}  // namespace dml
