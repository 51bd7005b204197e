// Trains a reward model on pairs (Bradley and Terry 1952; formulas as in TRL's RewardTrainer): the head outputs one
// number r per document, at its last token, and r of the chosen answer should be greater.
//
//   loss = −log σ(r_chosen − r_rejected − margin) + centering · (r_chosen + r_rejected)²
#pragma once

#include <vector>

#include "train/objective/document_objective.h"
#include "train/objective/pair_loss.h"

namespace dml {

/// The loss of one pair, with its derivatives with respect to the two rewards.
PairLoss reward_loss(double chosen, double rejected, double margin, double centering);

class RewardObjective : public DocumentObjective {
 public:
  explicit RewardObjective(double centering);
  /// `losses`: here the documents' rewards.
  LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) override;

 private:
  void divide(std::span<DocumentLoss> documents) const override;

  double centering_;
  std::vector<std::int32_t> chosen_, rejected_;  // documents of each pair
  std::vector<DocumentLoss> losses_;             // of each pair
};

}  // namespace dml
