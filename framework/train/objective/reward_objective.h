// Training a reward model on pairs (Bradley and Terry 1952; formulas as in TRL's RewardTrainer): the head gives one
// number r for a document, read at its last token, and the chosen answer's is to be the larger.
//
//   loss = −log σ(r_chosen − r_rejected − margin) + centring · (r_chosen + r_rejected)²
#pragma once

#include <vector>

#include "train/objective/document_objective.h"
#include "train/objective/pair_loss.h"

namespace dml {

/// The derivatives are those by the two rewards.
PairLoss reward_loss(double chosen, double rejected, double margin, double centring);

class RewardObjective : public DocumentObjective {
 public:
  explicit RewardObjective(double centring);
  /// losses: the rewards of the documents.
  LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) override;

 private:
  void divide(std::span<DocumentLoss> documents) const override;

  double centring_;
  std::vector<std::int32_t> chosen_, rejected_;  // documents of each pair
  std::vector<DocumentLoss> losses_;             // of each pair
};

}  // namespace dml
