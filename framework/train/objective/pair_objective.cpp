#include "train/objective/pair_objective.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "train/objective/logistic.h"

namespace dml {
namespace {

// In the order of terms_.
enum : std::size_t { kChosen, kRejected, kAccuracy, kMargin, kLogpsChosen, kLogpsRejected, kNll, kOddsRatio, kOdds };

const PackedBatch& the_batch(const PackedBatch& batch) { return batch; }

}  // namespace

PairObjective::PairObjective(PairObjectiveSettings settings)
    : DocumentObjective(settings.source, true, settings.weighting), settings_(std::move(settings)) {
  terms_ = {{"rewards/chosen", true},  {"rewards/rejected"},   {"rewards/accuracies", true},
            {"rewards/margins", true}, {"logps/chosen", true}, {"logps/rejected"}};
  for (const auto& term : settings_.terms) {
    compares_ |= term.row->compares_pairs;
    means_ |= term.row->by_token_means && !settings_.reference;
    odds_ |= term.row->is_log_odds_ratio;
  }
  DML_CHECK(!compares_ || !settings_.weighting);
  DML_CHECK(!odds_ || settings_.terms.size() == 1);  // log_pair reads the ratio from the loss
  if (settings_.nll != NllTokens::none || odds_) terms_.push_back({"nll_loss"});
  if (odds_) terms_.insert(terms_.end(), {{"log_odds_ratio", true}, {"log_odds_chosen", true}});
}

std::optional<double> PairObjective::loss_at_start() const {
  if (!settings_.reference || settings_.nll != NllTokens::none || settings_.weighting) return std::nullopt;
  double loss = 0;
  for (const auto& term : settings_.terms) loss += term.weight * dml::loss_at_start(*term.row, settings_.loss);
  return loss;
}

// The pairs of a micro-batch in the order of their groups.
void PairObjective::collect(std::span<const DocumentGroup> groups, std::span<const DocumentScore> documents) {
  std::size_t pairs = 0;
  for (const DocumentGroup& g : groups) pairs = std::max(pairs, static_cast<std::size_t>(g.group) + 1);
  pairs_.assign(pairs, {});
  weights_.assign(pairs, 1);
  chosen_.assign(pairs, -1), rejected_.assign(pairs, -1);
  for (std::size_t d = 0; d < groups.size(); ++d) {
    const DocumentGroup& g = groups[d];
    const auto pair = static_cast<std::size_t>(g.group);
    PairScores& p = pairs_[pair];
    if (documents[d].tokens > 0) p.log_weight += documents[d].aligned / documents[d].tokens;
    if (g.role == DocumentRole::chosen) {
      chosen_[pair] = static_cast<std::int32_t>(d);
      weights_[pair] = g.weight;
      p.chosen = documents[d].answer, p.chosen_tokens = documents[d].tokens, p.chosen_reference = g.reference;
    } else {
      DML_CHECK(g.role == DocumentRole::rejected);
      rejected_[pair] = static_cast<std::int32_t>(d);
      p.rejected = documents[d].answer, p.rejected_tokens = documents[d].tokens, p.rejected_reference = g.reference;
    }
  }
  for (std::size_t i = 0; i < pairs; ++i) DML_CHECK(chosen_[i] >= 0 && rejected_[i] >= 0);
}

void PairObjective::find_losses(std::span<const PairScores> scores, std::span<PairLoss> out) {
  std::ranges::fill(out, PairLoss{});
  term_losses_.resize(scores.size());
  for (const auto& term : settings_.terms) {
    term.row->losses(scores, settings_.loss, term_losses_);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].value += term.weight * term_losses_[i].value;
      out[i].by_chosen += term.weight * term_losses_[i].by_chosen;
      out[i].by_rejected += term.weight * term_losses_[i].by_rejected;
    }
  }
}

void PairObjective::weigh(std::span<const PairScores> scores, std::span<PairLoss> out) const {
  for (std::size_t i = 0; settings_.weighting && i < out.size(); ++i) {
    const double weight = std::exp(scores[i].log_weight);
    out[i] = {weight * out[i].value, weight * out[i].by_chosen, weight * out[i].by_rejected};
  }
}

void PairObjective::begin(const GlobalBatch& global) {
  DocumentObjective::begin(global);
  if (settings_.nll == NllTokens::none && !compares_) return;
  double pairs = 0, tokens = 0;
  std::vector<std::vector<DocumentScore>> counted(static_cast<std::size_t>(global.micro_batches));
  for (std::int64_t m = 0; m < global.micro_batches; ++m) {
    const PackedBatch batch = global.load(m);
    auto& documents = counted[static_cast<std::size_t>(m)];
    documents.resize(batch.groups.size());
    for (const DocumentGroup& g : batch.groups) pairs += g.role == DocumentRole::chosen ? g.weight : 0;
    each_labeled_row(batch, [&](std::int64_t document, bool answer, double) {
      const DocumentGroup& g = batch.groups[static_cast<std::size_t>(document)];
      documents[static_cast<std::size_t>(document)].tokens += answer;
      if (g.role == DocumentRole::chosen && (answer || settings_.nll == NllTokens::whole)) tokens += g.weight;
    });
  }
  nll_scale_ = tokens > 0 ? settings_.nll_weight * pairs / tokens : 0;
  if (!compares_) return;
  std::vector<PairScores> all;
  score_all(global, the_batch,
            [&](std::int64_t m, std::span<const DocumentGroup> groups, std::span<const double> scores) {
              auto& documents = counted[static_cast<std::size_t>(m)];
              for (std::size_t d = 0; d < documents.size(); ++d) documents[d].answer = scores[d];
              collect(groups, documents);
              all.insert(all.end(), pairs_.begin(), pairs_.end());
            });
  global_.resize(all.size());
  find_losses(all, global_);
}

double PairObjective::reward(double score, double reference, double tokens) const {
  if (!settings_.reference) reference = 0;
  return settings_.loss.beta * (score - reference) / (means_ ? tokens : 1);
}

void PairObjective::log_pair(const PairScores& p, const PairLoss& loss, LossSums& sums) const {
  const double chosen = reward(p.chosen, p.chosen_reference, p.chosen_tokens),
               rejected = reward(p.rejected, p.rejected_reference, p.rejected_tokens);
  sums.add(kChosen, chosen);
  sums.add(kRejected, rejected);
  sums.add(kAccuracy, chosen > rejected ? 1 : 0);
  sums.add(kMargin, chosen - rejected);
  sums.add(kLogpsChosen, p.chosen / (means_ ? p.chosen_tokens : 1));
  sums.add(kLogpsRejected, p.rejected / (means_ ? p.rejected_tokens : 1));
  if (!odds_) return;
  const double ratio = -loss.value / settings_.loss.beta;  // log σ(log odds)
  sums.add(kOddsRatio, ratio);
  sums.add(kOdds, ratio - log_one_minus_exp(ratio));
}

LossSums PairObjective::score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) {
  score_documents(batch, losses, documents_, squares());
  collect(batch.groups, documents_);
  pair_losses_.resize(pairs_.size());
  if (compares_) {
    const auto first = static_cast<std::size_t>(batch.first_group);
    DML_CHECK(first + pairs_.size() <= global_.size());
    std::copy_n(global_.begin() + static_cast<std::ptrdiff_t>(first), pairs_.size(), pair_losses_.begin());
  } else {
    find_losses(pairs_, pair_losses_);
    weigh(pairs_, pair_losses_);
  }

  LossSums sums;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    sums.loss += weights_[i] * pair_losses_[i].value;
    sums.denominator += weights_[i];
    log_pair(pairs_[i], pair_losses_[i], sums);
    const DocumentScore& chosen = documents_[static_cast<std::size_t>(chosen_[i])];
    if (settings_.nll == NllTokens::none) continue;
    double nll = chosen.loss, tokens = chosen.tokens;
    if (settings_.nll == NllTokens::whole) nll += chosen.prompt_loss, tokens += chosen.prompt_labels;
    sums.loss += weights_[i] * nll_scale_ * nll;
    sums.add(kNll, weights_[i] * nll, weights_[i] * tokens);
  }
  std::size_t row = 0;
  if (weights.empty()) return sums;
  each_labeled_row(batch, [&](std::int64_t document, bool answer, double share) {
    const DocumentGroup& g = batch.groups[static_cast<std::size_t>(document)];
    const PairLoss& loss = pair_losses_[static_cast<std::size_t>(g.group)];
    const bool chosen = g.role == DocumentRole::chosen;
    double weight = answer ? -share * (chosen ? loss.by_chosen : loss.by_rejected) : 0;
    if (chosen && (settings_.nll == NllTokens::whole || (answer && settings_.nll == NllTokens::answer)))
      weight += nll_scale_;
    weights[row++] = static_cast<float>(weights_[static_cast<std::size_t>(g.group)] * weight);
  });
  return sums;
}

// The loss of a pair is that of its chosen document.
void PairObjective::divide(std::span<DocumentLoss> documents) const {
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    documents[static_cast<std::size_t>(chosen_[i])] = {weights_[i] * pair_losses_[i].value, weights_[i]};
}

}  // namespace dml
