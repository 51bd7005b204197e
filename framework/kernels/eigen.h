// Eigenvectors of symmetric matrices by OpenBLAS's LAPACK, on the calling thread; for rare operations such as the basis
// of a projection.
#pragma once

#include "core/matrix.h"

namespace dml::kernels {

/// The right singular vectors of g (m, n) for its `count` largest singular values, as rows of out (count, n), largest
/// first, computed in double from the eigenvectors of gᵀg. `transposed`: the left ones, out (count, m). The largest
/// entry of each vector is positive. Throws Error(internal) if LAPACK fails.
void leading_singular_vectors(ConstMat g, bool transposed, std::int64_t count, float* out);

}  // namespace dml::kernels
