#include "train/token_loss.h"

namespace dml {

LossSums TokenLoss::train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) {
  return {model.train(batch, seed, hooks), static_cast<double>(batch.learned())};
}

LossSums TokenLoss::evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                             std::span<DocumentLoss> documents) {
  token_losses_.resize(documents.empty() ? 0 : static_cast<std::size_t>(batch.learned()));
  const LossSums sums{model.evaluate(batch, hooks, token_losses_), static_cast<double>(batch.learned())};
  std::size_t next = 0;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    documents[d] = {};
    for (std::int32_t t = batch.starts[d]; t < batch.starts[d + 1]; ++t)
      if (batch.labels[static_cast<std::size_t>(t)] != kIgnore)
        documents[d].loss += token_losses_[next++], documents[d].denominator += 1;
  }
  return sums;
}

}  // namespace dml
