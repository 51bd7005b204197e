// Rotary position embedding (Su et al. 2021) in the rotate-half form of Hugging Face: pairs (j, j + d/2) of the first d
// = 2 · cos.cols elements of every head are rotated by the angle position · inv_freq[j]. In the interleaved form, as
// first published, the pairs are (2j, 2j + 1).
#pragma once

#include <cstdint>
#include <span>

#include "core/matrix.h"

namespace dml::kernels {

/// cos and sin, (rows, d/2) each.
struct RopeTable {
  ConstMat cos, sin;
  bool interleaved = false;
};

/// The angles of T tokens: those of token t are row rows[t] of the table. If angles depend on the position only, the
/// rows are the positions.
struct RopeAngles {
  RopeTable table;
  std::span<const std::int32_t> rows;
};

/// Rotates x (T, heads · head_dim) in place; by the negative angles in the backward pass.
void rope(Mat x, std::int64_t head_dim, const RopeAngles& angles, bool backward);

}  // namespace dml::kernels
