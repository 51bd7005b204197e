// Learning from pairs of answers: DPO and its relatives, CPO, SimPO, ORPO. A loss of a pair is a function of two sums of
// log-probabilities, so its gradient is that of cross-entropy with a weight for each answer, known once both are summed.
#pragma once

#include <vector>

#include "train/objective/document_scores.h"
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
  bool reference = true;  // documents' reference scores are read
  NllTokens nll = NllTokens::none;
  double nll_weight = 0;  // of the mean over the chosen tokens of the global batch
};

class PairObjective : public Objective {
 public:
  explicit PairObjective(PairObjectiveSettings settings);

  std::span<const std::string> terms() const override { return names_; }
  std::optional<double> loss_at_start() const override;
  void begin(const GlobalBatch& global) override;
  LossSums train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) override;
  LossSums evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                    std::span<DocumentLoss> documents = {}) override;
  std::size_t measure(CausalLm& model, CausalLm::Shape shape, bool backward) override;

  /// The losses of a micro-batch's pairs and the weights of its rows, from the rows' losses. begin() has seen the batch.
  LossSums score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights);

 private:
  class Weights;
  void collect(const PackedBatch& batch, const std::vector<DocumentScore>& documents);
  void lose(std::span<const PairScores> scores, std::span<PairLoss> out);
  double reward(double score, double reference, double tokens) const;
  void log_pair(const PairScores& pair, const PairLoss& loss, LossSums& sums) const;

  PairObjectiveSettings settings_;
  bool compares_ = false;  // some loss depends on the whole batch
  bool means_ = false;     // rewards are of means over tokens
  bool odds_ = false;
  std::vector<std::string> names_;
  double nll_scale_ = 0;          // of a token's cross-entropy, in units of a pair's loss
  std::vector<PairLoss> global_;  // of all pairs of the batch, where some loss compares them
  // Of the micro-batch at hand; kept for their memory.
  std::vector<float> losses_;
  std::vector<DocumentScore> documents_;
  std::vector<PairScores> pairs_;
  std::vector<std::int32_t> chosen_, rejected_;  // documents of each pair
  std::vector<PairLoss> pair_losses_, term_losses_;
};

}  // namespace dml
