#include "train/objective/document_objective.h"

#include <algorithm>

#include "core/error.h"

namespace dml {
namespace {

class ScoredRows : public RowWeights {
 public:
  ScoredRows(DocumentObjective& objective, const PackedBatch& batch) : objective_(objective), batch_(batch) {}
  void weigh(std::span<const float> losses, std::span<float> weights) override {
    sums = objective_.score(batch_, losses, weights);
  }
  LossSums sums;

 private:
  DocumentObjective& objective_;
  const PackedBatch& batch_;
};

}  // namespace

PackedBatch DocumentObjective::with_reference(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks) {
  if (reference_ == ReferenceSource::batch) return batch;
  score_documents(model, batch, hooks, losses_, documents_, Adapters::off);
  groups_.assign(batch.groups.begin(), batch.groups.end());
  for (std::size_t d = 0; d < groups_.size(); ++d) groups_[d].reference = documents_[d].answer;
  PackedBatch out = batch;
  out.groups = groups_;
  return out;
}

LossSums DocumentObjective::train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) {
  const PackedBatch known = with_reference(model, batch, hooks);
  ScoredRows rows(*this, known);
  model.train(known, seed, hooks, &rows);
  return rows.sums;
}

LossSums DocumentObjective::evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                                     std::span<DocumentLoss> documents) {
  const PackedBatch known = with_reference(model, batch, hooks);
  losses_.resize(static_cast<std::size_t>(batch.learned()));
  model.evaluate(known, hooks, losses_);
  const LossSums sums = score(known, losses_, {});
  std::ranges::fill(documents, DocumentLoss{});
  if (!documents.empty()) divide(documents);
  return sums;
}

std::size_t DocumentObjective::measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
  const std::size_t scoring = model.measure(shape, false);
  if (!backward) return scoring;
  shape.weighted = true;
  return std::max(scoring, model.measure(shape, true));
}

void DocumentObjective::score_all(
    const GlobalBatch& global, const std::function<const PackedBatch&(const PackedBatch&)>& batch_of,
    const std::function<void(std::int64_t, std::span<const DocumentGroup>, std::span<const double>)>& visit) {
  const auto scores = score_global_batch(global, batch_of);
  std::vector<std::vector<double>> references;
  if (reference_ == ReferenceSource::base) references = score_global_batch(global, batch_of, Adapters::off);
  for (std::int64_t m = 0; m < global.micro_batches; ++m) {
    const auto at = static_cast<std::size_t>(m);
    const PackedBatch batch = global.load(m);
    const PackedBatch& scored = batch_of(batch);
    std::vector<DocumentGroup> groups(scored.groups.begin(), scored.groups.end());
    DML_CHECK(groups.size() == scores[at].size());
    for (std::size_t d = 0; d < groups.size() && !references.empty(); ++d) groups[d].reference = references[at][d];
    visit(m, groups, scores[at]);
  }
}

}  // namespace dml
