// Eigenvectors of symmetric matrices by OpenBLAS' LAPACK, on the calling thread; for rare operations, such as the basis
// of a projection.
#pragma once

#include "core/matrix.h"

namespace dml::kernels {

/// The right singular vectors of g (m, n) that belong to its `count` largest singular values, as rows of out (count,
/// n), largest first; by the eigenvectors of gᵀg in double. `transposed`: the left ones, out (count, m). The entry of
/// largest size of each vector is positive. Error(internal) if LAPACK fails.
void leading_singular_vectors(ConstMat g, bool transposed, std::int64_t count, float* out);

}  // namespace dml::kernels
