// Rotary position embedding, rotate-half form as in Hugging Face: pairs (j, j + d/2) of the first d = 2 · table.cols
// elements of every head turn by the angle position · inv_freq[j] (Su et al. 2021). Interleaved, as first published,
// the pairs are (2j, 2j + 1).
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

/// The angles of T tokens: token t is turned by row rows[t] of the table. Where the angle depends on the position
/// alone, the rows are the positions.
struct RopeAngles {
  RopeTable table;
  std::span<const std::int32_t> rows;
};

/// Turns x (T, heads · head_dim) in place; the angle's sign is flipped for the backward pass.
void rope(Mat x, std::int64_t head_dim, const RopeAngles& angles, bool backward);

}  // namespace dml::kernels
