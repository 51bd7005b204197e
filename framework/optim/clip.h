// Gradient clipping by the global norm, as in PyTorch. Gradients are not modified; the factor is a part of the
// optimizer's gradient_scale. The distribution strategy computes the sum of squares.
#pragma once

namespace dml {

/// The norm of the gradients times `scale` (1 / trained tokens).
double gradient_norm(double sum_of_squares, double scale);

/// min(1, max_norm / (norm + 1e-6)); 1 if max_norm is 0.
double clip_factor(double norm, double max_norm);

}  // namespace dml
