#include "train/objective/unpaired_objective.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace dml {
namespace {

// In the order of terms_.
enum : std::size_t { kDesirable, kUndesirable, kUnpairedMargin, kLogpsDesirable, kLogpsUndesirable, kUnpairedKl };

const PackedBatch& mismatched_of(const PackedBatch& batch) {
  DML_CHECK(batch.mismatched);
  return *batch.mismatched;
}

}  // namespace

UnpairedObjective::UnpairedObjective(UnpairedSettings settings, CausalLm::Shape mismatched, DocumentReference reference)
    : DocumentObjective(std::move(reference), false), settings_(settings), mismatched_(mismatched) {
  terms_ = {{"rewards/chosen", true},
            {"rewards/rejected"},
            {"rewards/margins", true},
            {"logps/chosen", true},
            {"logps/rejected"}};
  if (!settings_.apo_zero) terms_.push_back({"kl"});
}

// Both sides are worth ½ where the model is the reference; with weights, by how often each occurs.
std::optional<double> UnpairedObjective::loss_at_start() const {
  if (settings_.desirable_weight != 1 || settings_.undesirable_weight != 1) return std::nullopt;
  return 0.5;
}

void UnpairedObjective::begin(const GlobalBatch& global) {
  desirable_ = undesirable_ = divergence_ = 0;
  for (std::int64_t m = 0; m < global.micro_batches; ++m)
    for (const DocumentGroup& g : global.load(m).groups)
      (g.role == DocumentRole::desirable ? desirable_ : undesirable_) += 1;
  const double documents = desirable_ + undesirable_;
  if (settings_.apo_zero || documents < 2) return;  // a single answer cannot be paired with another prompt
  double gains = 0;
  score_all(global, mismatched_of,
            [&](std::int64_t, std::span<const DocumentGroup> groups, std::span<const double> scores) {
              for (std::size_t d = 0; d < scores.size(); ++d) gains += scores[d] - groups[d].reference;
            });
  divergence_ = std::max(0.0, gains / documents);
}

LossSums UnpairedObjective::score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) {
  score_documents(batch, losses, documents_);
  LossSums sums;
  slopes_.resize(documents_.size());
  losses_.resize(documents_.size());
  for (std::size_t d = 0; d < documents_.size(); ++d) {
    const DocumentGroup& g = batch.groups[d];
    const bool desirable = g.role == DocumentRole::desirable;
    const double gain = documents_[d].answer - g.reference, reward = settings_.beta * gain;
    const UnpairedLoss loss = unpaired_loss(gain, desirable, divergence_, settings_);
    slopes_[d] = g.weight * loss.by_score;
    losses_[d] = {g.weight * loss.value, g.weight};
    sums.loss += losses_[d].loss;
    sums.denominator += g.weight;
    sums.add(desirable ? kDesirable : kUndesirable, reward);
    sums.add(desirable ? kLogpsDesirable : kLogpsUndesirable, documents_[d].answer);
    if (desirable_ > 0 && undesirable_ > 0)  // the difference of two means
      sums.add(kUnpairedMargin, desirable ? reward / desirable_ : -reward / undesirable_,
               1 / (desirable_ + undesirable_));
    if (!settings_.apo_zero) sums.add(kUnpairedKl, divergence_);
  }
  if (weights.empty()) return sums;
  std::size_t row = 0;
  each_labeled_row(batch, [&](std::int64_t document, bool answer, double share) {
    weights[row++] = answer ? static_cast<float>(-share * slopes_[static_cast<std::size_t>(document)]) : 0;
  });
  return sums;
}

void UnpairedObjective::divide(std::span<DocumentLoss> documents) const {
  std::ranges::copy(losses_, documents.begin());
}

std::size_t UnpairedObjective::measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
  const std::size_t bytes = DocumentObjective::measure(model, shape, backward);
  return mismatched_.tokens > 0 ? std::max(bytes, model.measure(mismatched_, false)) : bytes;
}

}  // namespace dml
