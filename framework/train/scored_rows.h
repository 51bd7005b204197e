// Row weights that a function computes together with the sums of the micro-batch.
#pragma once

#include <utility>
#include <vector>

#include "model/causal_lm.h"
#include "train/objective.h"

namespace dml {

/// `Score`: score(losses, weights) → LossSums, with the arguments of RowWeights::weigh().
template <class Score>
class ScoredRows : public RowWeights {
 public:
  /// `squares`: receives log Σ p² of each row; null if it is not needed.
  explicit ScoredRows(Score score, std::vector<float>* squares = nullptr)
      : score_(std::move(score)), squares_(squares) {}
  void weigh(std::span<const float> losses, std::span<float> weights) override { sums = score_(losses, weights); }
  double denominator() const override { return sums.denominator; }
  void add_router_losses(double sum) override { sums.loss += sum; }
  std::span<float> squares(std::size_t rows) override {
    if (!squares_) return {};
    squares_->resize(rows);
    return *squares_;
  }
  LossSums sums;

 private:
  Score score_;
  std::vector<float>* squares_;
};

}  // namespace dml
