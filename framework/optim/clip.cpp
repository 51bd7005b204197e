#include "optim/clip.h"

#include <algorithm>
#include <cmath>

namespace dml {

double gradient_norm(double sum_of_squares, double scale) { return std::sqrt(sum_of_squares) * scale; }

double clip_factor(double norm, double max_norm) { return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1; }

}  // namespace dml
