// Learning from single answers that people found good or bad (KTO). How far the model has moved from the reference is
// estimated from each prompt with the answer of the document before it in the step, over the whole step.
#pragma once

#include <vector>

#include "train/objective/document_objective.h"
#include "train/objective/unpaired_loss.h"

namespace dml {

class UnpairedObjective : public DocumentObjective {
 public:
  /// mismatched: the largest batch of prompts with other prompts' answers, for the memory plan.
  UnpairedObjective(UnpairedSettings settings, CausalLm::Shape mismatched, DocumentReference reference = {});

  std::optional<double> loss_at_start() const override;
  void begin(const GlobalBatch& global) override;
  std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) override;

  LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) override;
  double divergence() const { return divergence_; }

 private:
  void divide(std::span<DocumentLoss> documents) const override;

  UnpairedSettings settings_;
  CausalLm::Shape mismatched_;
  double divergence_ = 0, desirable_ = 0, undesirable_ = 0;  // of the global batch: kl, and numbers of documents
  std::vector<DocumentLoss> losses_;
  std::vector<double> slopes_;  // of the losses, by the sums of log-probabilities
};

}  // namespace dml
