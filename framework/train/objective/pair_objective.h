// Preference training on pairs of answers: DPO and its variants, CPO, SimPO, ORPO. The loss of a pair is a function of
// two sums of log-probabilities, so its gradient is that of cross-entropy with one weight per answer, known once both
// sums are.
#pragma once

#include <vector>

#include "train/objective/document_objective.h"
#include "train/objective/pair_loss.h"

namespace dml {

/// The tokens of chosen documents whose cross-entropy is added to the loss.
enum class NllTokens { none, answer, whole };

struct PairObjectiveSettings {
  struct Term {
    const PairLossRow* row = nullptr;
    double weight = 1;
  };
  std::vector<Term> terms = {};
  PairSettings loss = {};
  bool reference = true;          // whether the losses use reference scores
  DocumentReference source = {};  // where the reference scores come from
  /// Weights each pair by how likely the model itself would generate its answers (WPO, Zhou et al. 2024): the
  /// exponential of the mean over tokens of log p − log Σ p², of both answers.
  bool weighting = false;
  NllTokens nll = NllTokens::none;
  double nll_weight = 0;  // weight of the mean cross-entropy over the chosen tokens of the global batch
};

class PairObjective : public DocumentObjective {
 public:
  explicit PairObjective(PairObjectiveSettings settings);

  std::optional<double> loss_at_start() const override;
  void begin(const GlobalBatch& global) override;
  LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) override;

 private:
  void divide(std::span<DocumentLoss> documents) const override;
  void collect(std::span<const DocumentGroup> groups, std::span<const DocumentScore> documents);
  void find_losses(std::span<const PairScores> scores, std::span<PairLoss> out);
  void weigh(std::span<const PairScores> scores, std::span<PairLoss> out) const;
  double reward(double score, double reference, double tokens) const;
  void log_pair(const PairScores& pair, const PairLoss& loss, LossSums& sums) const;

  PairObjectiveSettings settings_;
  bool compares_ = false;  // some loss compares the pairs of the whole global batch
  bool means_ = false;     // rewards are means over tokens
  bool odds_ = false;
  double nll_scale_ = 0;          // factor of a token's cross-entropy, relative to a pair's loss
  std::vector<PairLoss> global_;  // losses of all pairs of the global batch, if compares_
  // Buffers for the current micro-batch; members so that their memory is reused.
  std::vector<PairScores> pairs_;
  std::vector<double> weights_;                  // of the pairs
  std::vector<std::int32_t> chosen_, rejected_;  // documents of each pair
  std::vector<PairLoss> pair_losses_, term_losses_;
};

}  // namespace dml
