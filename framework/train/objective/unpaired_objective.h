// Preference training on single answers labeled desirable or undesirable (KTO). The KL divergence from the reference
// is estimated over the global batch, from each prompt with the answer of the preceding document of the step.
#pragma once

#include <vector>

#include "train/objective/document_objective.h"
#include "train/objective/unpaired_loss.h"

namespace dml {

class UnpairedObjective : public DocumentObjective {
 public:
  /// mismatched: the largest micro-batch of prompts with other prompts' answers, for the memory plan.
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
  double divergence_ = 0, desirable_ = 0, undesirable_ = 0;  // of the global batch: KL divergence, numbers of documents
  std::vector<DocumentLoss> losses_;
  std::vector<double> slopes_;  // derivatives of the losses with respect to the sums of log-probabilities
};

}  // namespace dml
