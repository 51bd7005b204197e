// Learning from pairs of answers: DPO and its relatives, CPO, SimPO, ORPO. A loss of a pair is a function of two sums
// of log-probabilities, so its gradient is that of cross-entropy with a weight for each answer, known once both are
// summed.
#pragma once

#include <vector>

#include "train/objective/document_objective.h"
#include "train/objective/pair_loss.h"

namespace dml {

/// Which tokens of the chosen documents have cross-entropy added.
enum class NllTokens { none, answer, whole };

struct PairObjectiveSettings {
  struct Term {
    const PairLossRow* row = nullptr;
    double weight = 1;
  };
  std::vector<Term> terms = {};
  PairSettings loss = {};
  bool reference = true;          // documents' reference scores are read …
  DocumentReference source = {};  // … from here
  /// Pairs count as much as the model itself would say their answers (WPO, Zhou et al. 2024): exp of the mean over the
  /// tokens of log p − log Σ p², of both answers.
  bool weighting = false;
  NllTokens nll = NllTokens::none;
  double nll_weight = 0;  // of the mean over the chosen tokens of the global batch
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
  bool compares_ = false;  // some loss depends on the whole batch
  bool means_ = false;     // rewards are of means over tokens
  bool odds_ = false;
  double nll_scale_ = 0;          // of a token's cross-entropy, in units of a pair's loss
  std::vector<PairLoss> global_;  // of all pairs of the batch, where some loss compares them
  // Of the micro-batch at hand; kept for their memory.
  std::vector<PairScores> pairs_;
  std::vector<double> weights_;                  // of the pairs
  std::vector<std::int32_t> chosen_, rejected_;  // documents of each pair
  std::vector<PairLoss> pair_losses_, term_losses_;
};

}  // namespace dml
