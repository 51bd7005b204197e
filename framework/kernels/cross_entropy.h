// The loss head: logits = hidden · headᵀ (soft-capped if asked), −log softmax at the label, in chunks of rows and
// panels of the vocabulary. The (N, V) logits never exist as a whole.
#pragma once

#include <functional>
#include <span>

#include "core/arena.h"
#include "core/matrix.h"
#include "core/packed_batch.h"
#include "kernels/weight.h"

namespace dml::kernels {

/// A low-rank term of the logits, + scale · down · bᵀ: an adapter on the head. ddown is set and db added to, unless
/// empty.
struct LowRankLogits {
  Mat down;    // (N,R)
  ConstMat b;  // (V,R)
  float scale = 1;
  Mat ddown, db;  // (N,R), (V,R)
};

/// Rows of the head that are trained by themselves: the logits of tokens[k] (ascending) are hidden · rows[numbers[k]].
/// drows is added to, unless empty.
struct ReplacedRows {
  std::span<const std::int32_t> tokens, numbers;
  ConstMat rows;  // (K,D)
  Mat drows;
};

/// Added to the logits (V); its gradient is added to, unless null.
struct HeadBias {
  const float* value = nullptr;
  float* gradient = nullptr;
};

/// Terms that training may add to the cross-entropy of every row, with lse the logarithm of the sum of exp(logits):
///   label smoothing ε (Szegedy et al. 2016, in the form of transformers' LabelSmoother): (1 − ε)·NLL + ε·mean over the
///   vocabulary of −log p, which is NLL + ε·(logit of the label − mean logit);
///   z-loss c (as in PaLM): + c·lse².
/// Their sum over the rows is added to `sum`; the losses that cross_entropy() itself returns stay plain.
struct ExtraLoss {
  float label_smoothing = 0, z_loss = 0;
  double sum = 0;

  explicit operator bool() const { return label_smoothing > 0 || z_loss > 0; }
};

/// A float32 head that is never in memory as a whole: part k holds rows [starts[k], starts[k + 1]).
struct HeadParts {
  struct Rows {
    Weight values;
    Mat gradient;  // to be added to; empty when not wanted
  };
  static constexpr std::int64_t kRowUnit = 448;  // a part begins at a multiple of it
  std::span<const std::int64_t> starts;
  std::function<Rows(std::size_t part, bool gradient)> open;  // readable until the next one is opened
  std::function<void(std::size_t part)> close;                // its gradient is final
};

/// The labels of rows, and which of their losses are wanted.
struct RowLosses {
  std::span<const Token> labels;        // (N), every one a valid token
  std::span<float> losses = {};         // (N) set unless empty
  std::span<float> log_squares = {};    // (N) set unless empty: log Σ p² over the vocabulary, p the softmax
  std::span<const float> weights = {};  // (N) unless empty: factors of the rows' gradients, not of the returned sum
  ExtraLoss* extra = nullptr;           // adds to gradients and to its own sum
};

/// The inputs and outputs of the loss head.
struct HeadTask {
  ConstMat hidden;  // (N,D): labelled rows only
  RowLosses rows;
  float softcap = 0;
  HeadBias bias = {};
  Mat dhidden = {};         // (N,D) set to the gradient of the sum, unless empty; may be `hidden` itself
  bool low_memory = false;  // half as many logits at a time
};

/// A head as a whole; `gradient` (V,D), unless empty, is set or added to.
struct WholeHead {
  Weight values;
  Mat gradient = {};
  Write mode = Write::add;
  const LowRankLogits* low = nullptr;
  const ReplacedRows* replaced = nullptr;
};

/// Returns the SUM of the row losses; gradients are of that sum.
double cross_entropy(const HeadTask& task, const WholeHead& head, Arena& scratch);

/// The same bits from a head in parts. Each part is opened twice: for the sums and for the gradients; dhidden must not
/// be `hidden`. Logits of all but the first rows are computed twice as well. Parts are opened in the same order for
/// every N, including 0.
double cross_entropy(const HeadTask& task, const HeadParts& head, Arena& scratch);

}  // namespace dml::kernels
