// The loss head: logits = hidden · headᵀ (optionally soft-capped) and −log softmax at the label, in chunks of rows and
// panels of the vocabulary. The logits (N, V) are never stored as a whole.
#pragma once

#include <functional>
#include <span>

#include "core/arena.h"
#include "core/matrix.h"
#include "core/packed_batch.h"
#include "kernels/weight.h"

namespace dml::kernels {

/// A low-rank term of the logits, + scale · down · bᵀ: an adapter on the head. Unless empty, ddown is set and db is
/// added to.
struct LowRankLogits {
  Mat down;    // (N,R)
  ConstMat b;  // (V,R)
  float scale = 1;
  Mat ddown, db;  // (N,R), (V,R)
};

/// Trained rows of a frozen head: the logits of tokens[k] (ascending) are hidden · rows[numbers[k]]. drows is added to
/// unless empty.
struct ReplacedRows {
  std::span<const std::int32_t> tokens, numbers;
  ConstMat rows;  // (K,D)
  Mat drows;
};

/// A bias of the logits (V); `gradient` (V) is added to unless null.
struct HeadBias {
  const float* value = nullptr;
  float* gradient = nullptr;
};

/// Optional terms of the loss of every row, with lse = log Σ exp(logits):
///   label smoothing ε (Szegedy et al. 2016, in the form of transformers' LabelSmoother): (1 − ε)·NLL + ε·mean over the
///   vocabulary of −log p, which is NLL + ε·(logit of the label − mean logit);
///   z-loss c (as in PaLM): + c·lse².
/// Their sum over the rows is added to `sum`; the losses that cross_entropy() returns do not include them.
struct ExtraLoss {
  float label_smoothing = 0, z_loss = 0;
  double sum = 0;

  explicit operator bool() const { return label_smoothing > 0 || z_loss > 0; }
};

/// A float32 head that is never in memory as a whole. Part k has rows [starts[k], starts[k + 1]).
struct HeadParts {
  struct Rows {
    Weight values;
    Mat gradient;  // to be added to; empty if not wanted
  };
  static constexpr std::int64_t kRowUnit = 448;  // parts begin at multiples of this row
  std::span<const std::int64_t> starts;
  std::function<Rows(std::size_t part, bool gradient)> open;  // valid until the next part is opened
  std::function<void(std::size_t part)> close;                // called when its gradient is final
};

/// The labels of the rows and the requested outputs per row.
struct RowLosses {
  std::span<const Token> labels;      // (N), all of them valid tokens
  std::span<float> losses = {};       // (N) set unless empty
  std::span<float> log_squares = {};  // (N) set unless empty: log Σ p² over the vocabulary, p the softmax
  std::span<const float> weights =
      {};                      // (N) unless empty: factors of the rows' gradients; they do not affect the returned sum
  ExtraLoss* extra = nullptr;  // null: no additional terms
};

/// The inputs and outputs of the loss head.
struct HeadTask {
  ConstMat hidden;  // (N,D): labeled rows only
  RowLosses rows;
  float softcap = 0;
  HeadBias bias = {};
  Mat dhidden = {};         // (N,D) set to the gradient of the sum unless empty; may alias `hidden`
  bool low_memory = false;  // process half as many logits at a time
};

/// A head in one piece; `gradient` (V,D) is set or added to unless empty.
struct WholeHead {
  Weight values;
  Mat gradient = {};
  Write mode = Write::add;
  const LowRankLogits* low = nullptr;
  const ReplacedRows* replaced = nullptr;
};

/// Returns the sum of the row losses; gradients are those of this sum.
double cross_entropy(const HeadTask& task, const WholeHead& head, Arena& scratch);

/// Gives the same bits with a head in parts. Each part is opened twice: for the sums and for the gradients. dhidden
/// must not alias `hidden`. The logits of all but the first chunk of rows are computed twice. Parts are opened in the
/// same order for every N, including 0.
double cross_entropy(const HeadTask& task, const HeadParts& head, Arena& scratch);

}  // namespace dml::kernels
