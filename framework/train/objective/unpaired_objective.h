// Learning from single answers that people found good or bad (KTO). How far the model has moved from the reference is
// estimated from each prompt with the answer of the document before it in the step, over the whole step.
#pragma once

#include <vector>

#include "train/objective/document_scores.h"
#include "train/objective/unpaired_loss.h"

namespace dml {

class UnpairedObjective : public Objective {
 public:
  /// mismatched: the largest batch of prompts with other prompts' answers, for the memory plan.
  UnpairedObjective(UnpairedSettings settings, CausalLm::Shape mismatched);

  std::span<const std::string> terms() const override { return names_; }
  std::optional<double> loss_at_start() const override;
  void begin(const GlobalBatch& global) override;
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override;
  LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                    std::span<DocumentLoss> documents = {}) override;
  std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) override;

  /// As PairObjective::score().
  LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights);
  double divergence() const { return divergence_; }

 private:
  class Weights;
  UnpairedSettings settings_;
  CausalLm::Shape mismatched_;
  std::vector<std::string> names_;
  double divergence_ = 0, desirable_ = 0, undesirable_ = 0;  // of the global batch: kl, and numbers of documents
  std::vector<float> losses_;
  std::vector<DocumentScore> documents_;
  std::vector<double> document_losses_, slopes_;  // slopes: of the losses, by the sums of log-probabilities
};

}  // namespace dml
