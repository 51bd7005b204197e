// Approximates the nearest matrix with orthogonal rows (or columns) by a Newton–Schulz iteration with Keller Jordan's
// coefficients (2024). X = G/(‖G‖ + 1e-7), transposed if rows > cols; A = XXᵀ; X = aX + (bA + cA²)X. After five steps,
// singular values are between 0.7 and 1.2.
#pragma once

#include <cstdint>

#include "core/matrix.h"

namespace dml {

/// Orthogonalises x (rows, cols) in place. `memory`: newton_schulz_floats() floats.
void newton_schulz(Mat x, int steps, float* memory);
std::int64_t newton_schulz_floats(std::int64_t rows, std::int64_t cols);

}  // namespace dml
