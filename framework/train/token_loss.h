// Cross-entropy of every trained token, its mean over the trained tokens of the global batch.
#pragma once

#include "train/objective.h"

namespace dml {

class TokenLoss : public Objective {
 public:
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override {
    return {model.train(batch, seed, hooks), static_cast<double>(batch.learned())};
  }
  LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks) override {
    return {model.evaluate(batch, hooks), static_cast<double>(batch.learned())};
  }
};

}  // namespace dml
