// Gradient clipping by the global norm, PyTorch's rule. Gradients stay as they are: the factor goes into the
// optimizer's gradient_scale. The sum of squares comes from the distribution strategy, which knows where the gradients
// are.
#pragma once

namespace dml {

/// Norm of the gradients times `scale` (1 / trained tokens).
double gradient_norm(double sum_of_squares, double scale);

/// min(1, max_norm / (norm + 1e-6)); 1 when max_norm is 0.
double clip_factor(double norm, double max_norm);

}  // namespace dml
