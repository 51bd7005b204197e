// Objectives of plug-ins: losses of sums of log-probabilities by document (train/objective/document_objective.h).
#include "plugin/adapters.h"
#include "plugin/tables.h"
#include "train/objective/document_objective.h"
#include "train/objective_rows.h"

namespace dml {
namespace {

plugin::Role role_of(DocumentRole role) {
  switch (role) {
    case DocumentRole::chosen:
      return plugin::Role::chosen;
    case DocumentRole::rejected:
      return plugin::Role::rejected;
    case DocumentRole::desirable:
      return plugin::Role::desirable;
    case DocumentRole::undesirable:
      return plugin::Role::undesirable;
    default:
      return plugin::Role::alone;
  }
}

class PluginObjective : public DocumentObjective {
 public:
  PluginObjective(Origin origin, std::unique_ptr<plugin::Objective> objective)
      : DocumentObjective({}, true), origin_(std::move(origin)), objective_(std::move(objective)) {
    for (const std::string& name : guarded(origin_, [&] { return objective_->terms(); })) terms_.push_back({name});
    if (terms_.size() > LossSums::kMaxTerms)
      plugin_failed(origin_, fmt::format("it has {} terms, more than {}", terms_.size(), LossSums::kMaxTerms));
  }

  LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) override {
    score_documents(batch, losses, documents_);
    shown_.resize(documents_.size());
    for (std::size_t d = 0; d < documents_.size(); ++d) {
      const DocumentGroup group =
          batch.groups.empty() ? DocumentGroup{DocumentRole::alone, static_cast<std::int32_t>(d)} : batch.groups[d];
      shown_[d] = {role_of(group.role), group.group, documents_[d].answer, documents_[d].tokens, group.reference};
    }
    found_.assign(documents_.size(), {});
    term_sums_.assign(terms_.size(), 0);
    guarded(origin_, [&] { objective_->score(shown_, found_, term_sums_); });

    LossSums sums;
    for (const plugin::DocumentLoss& d : found_) sums.loss += d.loss, sums.denominator += d.denominator;
    for (std::size_t t = 0; t < terms_.size(); ++t) sums.terms[t] = {term_sums_[t], sums.denominator};
    if (weights.empty()) return sums;
    std::size_t row = 0;
    each_labeled_row(batch, [&](std::int64_t document, bool answer, double weight) {
      weights[row++] = answer ? static_cast<float>(-weight * found_[static_cast<std::size_t>(document)].derivative) : 0;
    });
    return sums;
  }

 protected:
  void divide(std::span<DocumentLoss> documents) const override {
    for (std::size_t d = 0; d < documents.size(); ++d) documents[d] = {found_[d].loss, found_[d].denominator};
  }

 private:
  Origin origin_;
  std::unique_ptr<plugin::Objective> objective_;
  // Buffers for the current micro-batch; members so that their memory is reused.
  std::vector<plugin::Document> shown_;
  std::vector<plugin::DocumentLoss> found_;
  std::vector<double> term_sums_;
};

}  // namespace

void add_row(const Origin& origin, plugin::Row<plugin::Objective> row) {
  auto make = [origin, row](const ObjectiveSettings& settings) -> std::unique_ptr<Objective> {
    const Json arguments = arguments_in_plugin_args(row.arguments, settings.arguments, row.name);
    return std::make_unique<PluginObjective>(origin, make_of(origin, row, arguments));
  };
  takes_arguments(row.name);
  add_names(objectives(), row, ObjectiveKind{make});
}

}  // namespace dml
