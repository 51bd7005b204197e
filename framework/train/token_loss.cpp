#include "train/token_loss.h"

#include <algorithm>

#include "core/error.h"
#include "train/objective_rows.h"
#include "train/scored_rows.h"

namespace dml {
namespace {

// Calls visit(document, weight) for each labeled row, in the order of the rows' losses.
template <class F>
void each_weight(const PackedBatch& batch, F visit) {
  for (std::size_t d = 0; d + 1 < batch.starts.size(); ++d)
    for (auto t = static_cast<std::size_t>(batch.starts[d]); t < static_cast<std::size_t>(batch.starts[d + 1]); ++t)
      if (batch.labels[t] != kIgnore) visit(d, batch.weights.empty() ? 1.f : batch.weights[t]);
}

}  // namespace

LossSums TokenLoss::train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) {
  if (weighted_ || factor_) {
    ScoredRows rows([&](std::span<const float> losses, std::span<float> weights) {
      LossSums sums;
      std::size_t row = 0;
      each_weight(batch, [&](std::size_t, float weight) {
        const auto loss = static_cast<double>(losses[row]), share = static_cast<double>(weight);
        const double weighed = factor_ ? share * factor_(loss) : share;
        sums.loss += weighed * loss;
        sums.denominator += share;
        if (factor_) sums.add(0, share * loss, share);
        weights[row++] = static_cast<float>(weighed);
      });
      return sums;
    });
    model.train(batch, seed, hooks, &rows);
    return rows.sums;
  }
  const auto tokens = static_cast<double>(batch.trained());
  if (!extra_) return {model.train(batch, seed, hooks), tokens};
  kernels::ExtraLoss extra = extra_;
  const double plain = model.train(batch, seed, hooks, nullptr, &extra);
  return {plain + extra.sum, tokens, {LossSums::Term{plain, tokens}}};
}

std::span<const Metric> TokenLoss::terms() const {
  static const Metric terms[] = {{"nll"}};
  return extra_ || factor_ ? std::span(terms) : std::span<const Metric>();
}

std::size_t TokenLoss::measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
  shape.weighted = (weighted_ || factor_) && backward;
  shape.smoothed = extra_.label_smoothing > 0;
  return model.measure(shape, backward);
}

LossSums TokenLoss::evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                             std::span<DocumentLoss> documents) {
  DML_CHECK(documents.empty() || std::ssize(documents) == batch.documents());
  token_losses_.resize(documents.empty() && !weighted_ ? 0 : static_cast<std::size_t>(batch.trained()));
  LossSums sums{model.evaluate(batch, hooks, token_losses_), static_cast<double>(batch.trained())};
  std::ranges::fill(documents, DocumentLoss{});
  if (token_losses_.empty()) return sums;
  if (weighted_) sums = {};
  std::size_t row = 0;
  each_weight(batch, [&](std::size_t d, float weight) {
    const double loss = static_cast<double>(weight) * static_cast<double>(token_losses_[row++]);
    if (weighted_) sums.loss += loss, sums.denominator += static_cast<double>(weight);
    if (!documents.empty()) documents[d].loss += loss, documents[d].denominator += static_cast<double>(weight);
  });
  return sums;
}

ObjectiveRows token_loss_rows() {
  return {{"nll",
           "cross-entropy of every trained token: the default of supervised training",
           {.make = [](const ObjectiveSettings& s) { return std::make_unique<TokenLoss>(s.extra, s.weighted); },
            .of_tokens = true}}};
}

}  // namespace dml
