// Objectives of plug-ins: losses of sums of log-probabilities by document, whose gradient is that of cross-entropy with a weight
// for each document.
#include <algorithm>

#include "plugin/adapters.h"
#include "plugin/tables.h"
#include "train/objective/document_scores.h"

namespace dml {
namespace {

plugin::Role role_of(DocumentRole role) {
  switch (role) {
    case DocumentRole::alone: return plugin::Role::alone;
    case DocumentRole::chosen: return plugin::Role::chosen;
    case DocumentRole::rejected: return plugin::Role::rejected;
    case DocumentRole::desirable: return plugin::Role::desirable;
    case DocumentRole::undesirable: return plugin::Role::undesirable;
  }
  return plugin::Role::alone;
}

class PluginObjective : public Objective {
 public:
  PluginObjective(Origin origin, std::unique_ptr<plugin::Objective> objective)
      : origin_(std::move(origin)), objective_(std::move(objective)) {
    names_ = guarded(origin_, [&] { return objective_->terms(); });
    if (names_.size() > LossSums::kMostTerms)
      plugin_failed(origin_, fmt::format("it has {} terms, more than {}", names_.size(), LossSums::kMostTerms));
  }

  std::span<const std::string> terms() const override { return names_; }
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override {
    Weights weights(*this, batch);
    model.train(batch, seed, hooks, &weights);
    return weights.sums;
  }
  LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks, std::span<DocumentLoss> documents) override {
    row_losses_.resize(static_cast<std::size_t>(batch.learned()));
    model.evaluate(batch, hooks, row_losses_);
    const LossSums sums = score(batch, row_losses_, {});
    for (std::size_t d = 0; d < documents.size(); ++d) documents[d] = {losses_[d].loss, losses_[d].denominator};
    return sums;
  }
  std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) override {
    const std::size_t scoring = model.measure(shape, false);
    if (!backward) return scoring;
    shape.weighted = true;
    return std::max(scoring, model.measure(shape, true));
  }

 private:
  class Weights : public RowWeights {
   public:
    Weights(PluginObjective& objective, const PackedBatch& batch) : objective_(objective), batch_(batch) {}
    void weigh(std::span<const float> losses, std::span<float> weights) override {
      sums = objective_.score(batch_, losses, weights);
    }
    LossSums sums;

   private:
    PluginObjective& objective_;
    const PackedBatch& batch_;
  };

  LossSums score(const PackedBatch& batch, std::span<const float> row_losses, std::span<float> weights) {
    score_documents(batch, row_losses, scores_);
    documents_.resize(scores_.size());
    for (std::size_t d = 0; d < scores_.size(); ++d) {
      const DocumentGroup group = batch.groups.empty() ? DocumentGroup{DocumentRole::alone, static_cast<std::int32_t>(d)} : batch.groups[d];
      documents_[d] = {role_of(group.role), group.group, scores_[d].answer, scores_[d].tokens, group.reference};
    }
    losses_.assign(documents_.size(), {});
    term_sums_.assign(names_.size(), 0);
    guarded(origin_, [&] { objective_->score(documents_, losses_, term_sums_); });

    LossSums sums;
    for (const plugin::DocumentLoss& d : losses_) sums.loss += d.loss, sums.denominator += d.denominator;
    for (std::size_t t = 0; t < names_.size(); ++t) sums.terms[t] = {term_sums_[t], sums.denominator};
    if (weights.empty()) return sums;
    std::size_t row = 0;
    each_labelled_row(batch, [&](std::int64_t document, bool answer) {
      weights[row++] = answer ? static_cast<float>(-losses_[static_cast<std::size_t>(document)].derivative) : 0;
    });
    return sums;
  }

  Origin origin_;
  std::unique_ptr<plugin::Objective> objective_;
  std::vector<std::string> names_;
  // Of the micro-batch at hand; kept for their memory.
  std::vector<float> row_losses_;
  std::vector<DocumentScore> scores_;
  std::vector<plugin::Document> documents_;
  std::vector<plugin::DocumentLoss> losses_;
  std::vector<double> term_sums_;
};

}  // namespace

void add_row(const Origin& origin, plugin::Row<plugin::Objective> row) {
  auto make = [origin, row](const Json& given) -> std::unique_ptr<Objective> {
    const Json arguments = checked_arguments(row.arguments, given, "plugin_args." + row.name);
    return std::make_unique<PluginObjective>(origin, make_of(origin, row, arguments));
  };
  for (const std::string& name : row.spellings) plugin_objectives().add({name, row.help, make});
  plugin_objectives().add({row.name, row.help, make});
}

}  // namespace dml
