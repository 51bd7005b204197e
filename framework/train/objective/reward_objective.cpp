#include "train/objective/reward_objective.h"

#include "core/error.h"
#include "train/objective/logistic.h"

namespace dml {
namespace {

// In the order of terms_.
enum : std::size_t { kRewardChosen, kRewardRejected, kRewardAccuracy, kRewardMargin, kRewardMean };

}  // namespace

PairLoss reward_loss(double chosen, double rejected, double margin, double centering) {
  const double x = chosen - rejected - margin, sum = chosen + rejected, center = 2 * centering * sum;
  return {-log_sigmoid(x) + centering * sum * sum, -sigmoid(-x) + center, sigmoid(-x) + center};
}

RewardObjective::RewardObjective(double centering) : DocumentObjective({}, true), centering_(centering) {
  terms_ = {
      {"rewards/chosen", true}, {"rewards/rejected"}, {"accuracy", true}, {"margin", true}, {"mean_reward", true}};
}

LossSums RewardObjective::score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) {
  const std::size_t pairs = batch.groups.size() / 2;
  DML_CHECK(losses.size() == batch.groups.size() && batch.groups.size() % 2 == 0);
  chosen_.assign(pairs, -1), rejected_.assign(pairs, -1);
  for (std::size_t d = 0; d < batch.groups.size(); ++d) {
    const DocumentGroup& g = batch.groups[d];
    (g.role == DocumentRole::chosen ? chosen_ : rejected_)[static_cast<std::size_t>(g.group)] =
        static_cast<std::int32_t>(d);
  }
  LossSums sums;
  losses_.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    DML_CHECK(chosen_[i] >= 0 && rejected_[i] >= 0);
    const auto c = static_cast<std::size_t>(chosen_[i]), r = static_cast<std::size_t>(rejected_[i]);
    const DocumentGroup& g = batch.groups[c];
    const auto chosen = static_cast<double>(losses[c]), rejected = static_cast<double>(losses[r]);
    const PairLoss loss = reward_loss(chosen, rejected, g.margin, centering_);
    losses_[i] = {g.weight * loss.value, g.weight};
    sums.loss += losses_[i].loss;
    sums.denominator += g.weight;
    sums.add(kRewardChosen, chosen);
    sums.add(kRewardRejected, rejected);
    sums.add(kRewardAccuracy, chosen > rejected ? 1 : 0);
    sums.add(kRewardMargin, chosen - rejected);
    sums.add(kRewardMean, (chosen + rejected) / 2);
    if (weights.empty()) continue;
    weights[c] = static_cast<float>(g.weight * loss.by_chosen);
    weights[r] = static_cast<float>(g.weight * loss.by_rejected);
  }
  return sums;
}

// The loss of a pair is that of its chosen document.
void RewardObjective::divide(std::span<DocumentLoss> documents) const {
  for (std::size_t i = 0; i < losses_.size(); ++i) documents[static_cast<std::size_t>(chosen_[i])] = losses_[i];
}

}  // namespace dml
