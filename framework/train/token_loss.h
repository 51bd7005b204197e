// Cross-entropy: its mean over the trained tokens of the global batch. In training, label smoothing and z-loss may be
// added; then `loss` includes them and `nll` is the cross-entropy alone. Evaluations never include them.
//
// If the batch has weights, the loss is the weighted mean Σ w · cross-entropy ÷ Σ w over the global batch. A factor per
// token multiplies the cross-entropy, not the denominator; `nll` is the cross-entropy alone then, too.
#pragma once

#include <vector>

#include "train/objective.h"

namespace dml {

/// The factor of a token's loss as a function of its cross-entropy −log p; a constant in the gradient.
using TokenFactor = double (*)(double cross_entropy);

class TokenLoss : public Objective {
 public:
  TokenLoss() = default;
  /// `weighted`: batches may have weights. `extra` cannot be combined with weights or a factor.
  explicit TokenLoss(kernels::ExtraLoss extra, bool weighted = false, TokenFactor factor = nullptr)
      : extra_(extra), weighted_(weighted), factor_(factor) {}

  std::span<const Metric> terms() const override;
  std::span<const Metric> evaluated_terms() const override { return {}; }
  std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) override;
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override;
  LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                    std::span<DocumentLoss> documents = {}) override;

 private:
  kernels::ExtraLoss extra_;
  bool weighted_ = false;
  TokenFactor factor_ = nullptr;
  std::vector<float> token_losses_;  // used by evaluations with documents or weights
};

}  // namespace dml
