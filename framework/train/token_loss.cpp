#include "train/token_loss.h"

namespace dml {

LossSums TokenLoss::train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) {
  const auto tokens = static_cast<double>(batch.learned());
  if (!extra_) return {model.train(batch, seed, hooks), tokens};
  kernels::ExtraLoss extra = extra_;
  const double plain = model.train(batch, seed, hooks, nullptr, &extra);
  return {plain + extra.sum, tokens, {LossSums::Term{plain, tokens}}};
}

std::span<const Metric> TokenLoss::terms() const {
  static const Metric terms[] = {{"nll"}};
  return extra_ ? std::span(terms) : std::span<const Metric>();
}

std::size_t TokenLoss::measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
  shape.smoothed = extra_.label_smoothing > 0;
  return model.measure(shape, backward);
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
