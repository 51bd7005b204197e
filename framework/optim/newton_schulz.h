// The nearest matrix with orthogonal rows (or columns), about: five steps of a Newton–Schulz iteration with Keller
// Jordan's coefficients (2024). X = G/(‖G‖ + 1e-7), transposed where G is tall; A = XXᵀ; X = aX + (bA + cA²)X. Singular
// values end between 0.7 and 1.2.
#pragma once

#include <cstdint>

#include "core/matrix.h"

namespace dml {

/// x (rows, cols) in place. `memory`: newton_schulz_floats() floats.
void newton_schulz(Mat x, int steps, float* memory);
std::int64_t newton_schulz_floats(std::int64_t rows, std::int64_t cols);

}  // namespace dml
