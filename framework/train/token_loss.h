// Cross-entropy of every trained token; its mean over the trained tokens of the global batch.
#pragma once

#include <vector>

#include "train/objective.h"

namespace dml {

class TokenLoss : public Objective {
 public:
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override;
  LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                    std::span<DocumentLoss> documents = {}) override;

 private:
  std::vector<float> token_losses_;  // of an evaluation with documents
};

}  // namespace dml
