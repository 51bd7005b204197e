#include "train/objective/document_objective.h"

#include <algorithm>

#include "core/error.h"
#include "train/scored_rows.h"

namespace dml {

void DocumentObjective::begin(const GlobalBatch& global) {
  if (reference_.source != ReferenceSource::moving) return;
  reference_.swap();
  const auto scores = score_global_batch(global, [](const PackedBatch& b) -> const PackedBatch& { return b; });
  reference_.swap();
  moving_.clear();
  for (const auto& micro_batch : scores) moving_.insert(moving_.end(), micro_batch.begin(), micro_batch.end());
}

double DocumentObjective::moving(const PackedBatch& batch, std::size_t document) const {
  const auto at = 2 * static_cast<std::size_t>(batch.first_group) + document;
  DML_CHECK(pairs_ && at < moving_.size());
  return moving_[at];
}

PackedBatch DocumentObjective::with_reference(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks) {
  if (reference_.source == ReferenceSource::batch) return batch;
  const bool base = reference_.source == ReferenceSource::base;
  if (base) score_documents(model, batch, hooks, losses_, documents_, Adapters::off);
  groups_.assign(batch.groups.begin(), batch.groups.end());
  for (std::size_t d = 0; d < groups_.size(); ++d)
    groups_[d].reference = base ? documents_[d].answer : moving(batch, d);
  PackedBatch out = batch;
  out.groups = groups_;
  return out;
}

LossSums DocumentObjective::train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) {
  const PackedBatch known = with_reference(model, batch, hooks);
  ScoredRows rows(
      [&](std::span<const float> losses, std::span<float> weights) { return score(known, losses, weights); },
      reads_squares_ ? &squares_ : nullptr);
  model.train(known, seed, hooks, &rows);
  return rows.sums;
}

LossSums DocumentObjective::evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                                     std::span<DocumentLoss> documents) {
  const PackedBatch known = with_reference(model, batch, hooks);
  losses_.resize(static_cast<std::size_t>(batch.trained()));
  squares_.resize(reads_squares_ ? losses_.size() : 0);
  model.evaluate(known, hooks, losses_, Adapters::on, squares_);
  const LossSums sums = score(known, losses_, {});
  std::ranges::fill(documents, DocumentLoss{});
  if (!documents.empty()) divide(documents);
  return sums;
}

std::size_t DocumentObjective::measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
  shape.shared = pairs_, shape.squared = reads_squares_;
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
  if (reference_.source == ReferenceSource::base) references = score_global_batch(global, batch_of, Adapters::off);
  for (std::int64_t m = 0; m < global.micro_batches; ++m) {
    const auto at = static_cast<std::size_t>(m);
    const PackedBatch batch = global.load(m);
    const PackedBatch& scored = batch_of(batch);
    std::vector<DocumentGroup> groups(scored.groups.begin(), scored.groups.end());
    DML_CHECK(groups.size() == scores[at].size());
    for (std::size_t d = 0; d < groups.size(); ++d)
      if (!references.empty()) groups[d].reference = references[at][d];
      else if (reference_.source == ReferenceSource::moving) groups[d].reference = moving(batch, d);
    visit(m, groups, scores[at]);
  }
}

}  // namespace dml
