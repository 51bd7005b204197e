// The scaling of DoRA (Liu et al. 2024): y = m / ‖W + s·BA‖ · (x Wᵀ + s · (x Aᵀ) Bᵀ), a factor for every output.
#pragma once

#include "nn/linear.h"

namespace dml {

inline bool has_dora(const LinearRows& r) { return r.linear->lora && r.linear->lora->magnitude; }

/// Sets or adds to y (T, out) the scaled `product` (T, out), which is saved for backward. `product` must not be y: what
/// y holds is not scaled.
void scale_by_magnitude(const LinearRows& r, Mat product, Mat y, Write mode, Pass& pass);
/// Adds the gradient of the magnitudes; returns that of the product, in scratch memory.
Mat magnitude_backward(const LinearRows& r, ConstMat dy, Pass& pass);

}  // namespace dml
