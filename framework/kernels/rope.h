// Rotary position embedding, rotate-half form as in Hugging Face: pairs (j, j + d/2) of the first d = 2 · table.cols
// elements of every head turn by the angle position · inv_freq[j] (Su et al. 2021).
#pragma once

#include <cstdint>
#include <span>

#include "core/matrix.h"

namespace dml::kernels {

/// cos and sin, (positions, d/2) each.
struct RopeTable {
  ConstMat cos, sin;
};

/// Turns x (T, heads · head_dim) in place; the angle's sign is flipped for the backward pass.
void rope(Mat x, std::int64_t head_dim, std::span<const std::int32_t> positions, const RopeTable& table, bool backward);

}  // namespace dml::kernels
