// The loss head: logits = hidden · headᵀ (soft-capped if asked), −log softmax at the label, in chunks of rows and panels of
// the vocabulary. The (N, V) logits never exist as a whole.
#pragma once

#include <span>

#include "core/arena.h"
#include "core/matrix.h"
#include "core/packed_batch.h"
#include "kernels/weight.h"

namespace dml::kernels {

/// A low-rank term of the logits, + scale · down · bᵀ: an adapter on the head. ddown is set and db added to, unless empty.
struct LowRankLogits {
  Mat down;    // (N,R)
  ConstMat b;  // (V,R)
  float scale = 1;
  Mat ddown, db;  // (N,R), (V,R)
};

/// hidden (N,D): labelled rows only; labels (N), every one a valid token. Returns the SUM of the row losses.
/// row_losses (N) are set when not empty. Gradients are of the sum: dhidden (N,D) is set when not empty (may be `hidden`
/// itself); dhead (V,D) is set or added to when not empty. `sparing`: half as many logits at a time.
double cross_entropy(ConstMat hidden, const Weight& head, std::span<const Token> labels, float softcap,
                     std::span<float> row_losses, Mat dhidden, Mat dhead, Write dhead_mode, Arena& scratch,
                     const LowRankLogits* low = nullptr, bool sparing = false);

}  // namespace dml::kernels
