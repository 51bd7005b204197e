#include "train/objective/unpaired_objective.h"

#include <algorithm>

#include "core/error.h"

namespace dml {
namespace {

// In the order of names_.
enum : std::size_t { kDesirable, kUndesirable, kMargin, kLogpsDesirable, kLogpsUndesirable, kKl };

const PackedBatch& mismatched_of(const PackedBatch& batch) {
  DML_CHECK(batch.mismatched);
  return *batch.mismatched;
}

}  // namespace

class UnpairedObjective::Weights : public RowWeights {
 public:
  Weights(UnpairedObjective& objective, const PackedBatch& batch) : objective_(objective), batch_(batch) {}
  void weigh(std::span<const float> losses, std::span<float> weights) override {
    sums = objective_.score(batch_, losses, weights);
  }
  LossSums sums;

 private:
  UnpairedObjective& objective_;
  const PackedBatch& batch_;
};

UnpairedObjective::UnpairedObjective(UnpairedSettings settings, CausalLm::Shape mismatched)
    : settings_(settings), mismatched_(mismatched) {
  names_ = {"rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected"};
  if (!settings_.apo_zero) names_.push_back("kl");
}

// Both sides are worth ½ where the model is the reference; with weights, by how often each occurs.
std::optional<double> UnpairedObjective::loss_at_start() const {
  if (settings_.desirable_weight != 1 || settings_.undesirable_weight != 1) return std::nullopt;
  return 0.5;
}

void UnpairedObjective::begin(const GlobalBatch& global) {
  desirable_ = undesirable_ = divergence_ = 0;
  std::vector<std::vector<double>> reference(static_cast<std::size_t>(global.micro_batches));
  for (std::int64_t m = 0; m < global.micro_batches; ++m) {
    const PackedBatch batch = global.load(m);
    for (const DocumentGroup& g : batch.groups) (g.role == DocumentRole::desirable ? desirable_ : undesirable_) += 1;
    if (settings_.apo_zero) continue;
    for (const DocumentGroup& g : mismatched_of(batch).groups)
      reference[static_cast<std::size_t>(m)].push_back(g.reference);
  }
  if (settings_.apo_zero) return;
  const auto scores = score_global_batch(global, mismatched_of);
  double gains = 0;
  for (std::size_t m = 0; m < scores.size(); ++m)
    for (std::size_t d = 0; d < scores[m].size(); ++d) gains += scores[m][d] - reference[m][d];
  if (const double documents = desirable_ + undesirable_; documents > 0) divergence_ = std::max(0.0, gains / documents);
}

LossSums UnpairedObjective::score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) {
  score_documents(batch, losses, documents_);
  LossSums sums;
  sums.denominator = static_cast<double>(documents_.size());
  slopes_.resize(documents_.size());
  document_losses_.resize(documents_.size());
  auto add = [&](std::size_t term, double value, double weight) {
    sums.terms[term].sum += value;
    sums.terms[term].weight += weight;
  };
  for (std::size_t d = 0; d < documents_.size(); ++d) {
    const DocumentGroup& g = batch.groups[d];
    const bool desirable = g.role == DocumentRole::desirable;
    const double gain = documents_[d].answer - g.reference, reward = settings_.beta * gain;
    const UnpairedLoss loss = unpaired_loss(gain, desirable, divergence_, settings_);
    slopes_[d] = loss.by_score;
    document_losses_[d] = loss.value;
    sums.loss += loss.value;
    add(desirable ? kDesirable : kUndesirable, reward, 1);
    add(desirable ? kLogpsDesirable : kLogpsUndesirable, documents_[d].answer, 1);
    // The difference of two means.
    add(kMargin, desirable ? reward / desirable_ : -reward / undesirable_, 1 / (desirable_ + undesirable_));
    if (!settings_.apo_zero) add(kKl, divergence_, 1);
  }
  if (weights.empty()) return sums;
  std::size_t row = 0;
  each_labelled_row(batch, [&](std::int64_t document, bool answer) {
    weights[row++] = answer ? static_cast<float>(-slopes_[static_cast<std::size_t>(document)]) : 0;
  });
  return sums;
}

LossSums UnpairedObjective::train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) {
  Weights weights(*this, batch);
  model.train(batch, seed, hooks, &weights);
  return weights.sums;
}

LossSums UnpairedObjective::evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                                     std::span<DocumentLoss> documents) {
  losses_.resize(static_cast<std::size_t>(batch.learned()));
  model.evaluate(batch, hooks, losses_);
  const LossSums sums = score(batch, losses_, {});
  for (std::size_t d = 0; d < documents.size(); ++d) documents[d] = {document_losses_[d], 1};
  return sums;
}

std::size_t UnpairedObjective::measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
  std::size_t bytes = model.measure(shape, false);
  if (mismatched_.tokens > 0) bytes = std::max(bytes, model.measure(mismatched_, false));
  if (!backward) return bytes;
  shape.weighted = true;
  return std::max(bytes, model.measure(shape, true));
}

}  // namespace dml
