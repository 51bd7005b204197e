#include "train/objective/pair_objective.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "train/objective/logistic.h"

namespace dml {
namespace {

// In the order of names_.
enum : std::size_t { kChosen, kRejected, kAccuracy, kMargin, kLogpsChosen, kLogpsRejected, kNll, kOddsRatio, kOdds };

const PackedBatch& the_batch(const PackedBatch& batch) { return batch; }

}  // namespace

class PairObjective::Weights : public RowWeights {
 public:
  Weights(PairObjective& objective, const PackedBatch& batch) : objective_(objective), batch_(batch) {}
  void weigh(std::span<const float> losses, std::span<float> weights) override {
    sums = objective_.score(batch_, losses, weights);
  }
  LossSums sums;

 private:
  PairObjective& objective_;
  const PackedBatch& batch_;
};

PairObjective::PairObjective(PairObjectiveSettings settings) : settings_(std::move(settings)) {
  names_ = {"rewards/chosen",  "rewards/rejected", "rewards/accuracies",
            "rewards/margins", "logps/chosen",     "logps/rejected"};
  for (const auto& term : settings_.terms) {
    compares_ |= term.row->compares_pairs;
    means_ |= term.row->by_token_means && !settings_.reference;
    odds_ |= term.row->name == "orpo";
  }
  if (settings_.nll != NllTokens::none || odds_) names_.push_back("nll_loss");
  if (odds_) names_.insert(names_.end(), {"log_odds_ratio", "log_odds_chosen"});
}

std::optional<double> PairObjective::loss_at_start() const {
  if (!settings_.reference || settings_.nll != NllTokens::none) return std::nullopt;
  double loss = 0;
  for (const auto& term : settings_.terms) loss += term.weight * dml::loss_at_start(*term.row, settings_.loss);
  return loss;
}

// The pairs of a micro-batch in the order of their groups.
void PairObjective::collect(const PackedBatch& batch, const std::vector<DocumentScore>& documents) {
  std::size_t pairs = 0;
  for (const DocumentGroup& g : batch.groups) pairs = std::max(pairs, static_cast<std::size_t>(g.group) + 1);
  pairs_.assign(pairs, {});
  chosen_.assign(pairs, -1), rejected_.assign(pairs, -1);
  for (std::size_t d = 0; d < batch.groups.size(); ++d) {
    const DocumentGroup& g = batch.groups[d];
    const auto pair = static_cast<std::size_t>(g.group);
    PairScores& p = pairs_[pair];
    if (g.role == DocumentRole::chosen) {
      chosen_[pair] = static_cast<std::int32_t>(d);
      p.chosen = documents[d].answer, p.chosen_tokens = documents[d].tokens, p.chosen_reference = g.reference;
    } else {
      DML_CHECK(g.role == DocumentRole::rejected);
      rejected_[pair] = static_cast<std::int32_t>(d);
      p.rejected = documents[d].answer, p.rejected_tokens = documents[d].tokens, p.rejected_reference = g.reference;
    }
  }
  for (std::size_t i = 0; i < pairs; ++i) DML_CHECK(chosen_[i] >= 0 && rejected_[i] >= 0);
}

void PairObjective::lose(std::span<const PairScores> scores, std::span<PairLoss> out) {
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

void PairObjective::begin(const GlobalBatch& global) {
  if (settings_.nll == NllTokens::none && !compares_) return;
  double pairs = 0, tokens = 0;
  for (std::int64_t m = 0; m < global.micro_batches; ++m) {
    const PackedBatch batch = global.load(m);
    for (const DocumentGroup& g : batch.groups) pairs += g.role == DocumentRole::chosen;
    each_labelled_row(batch, [&](std::int64_t document, bool answer) {
      const bool chosen = batch.groups[static_cast<std::size_t>(document)].role == DocumentRole::chosen;
      tokens += chosen && (answer || settings_.nll == NllTokens::whole);
    });
  }
  nll_scale_ = tokens > 0 ? settings_.nll_weight * pairs / tokens : 0;
  if (!compares_) return;
  const auto scores = score_global_batch(global, the_batch);
  std::vector<PairScores> all;
  for (std::int64_t m = 0; m < global.micro_batches; ++m) {
    const PackedBatch batch = global.load(m);
    documents_.assign(static_cast<std::size_t>(batch.documents()), {});
    for (std::size_t d = 0; d < documents_.size(); ++d) documents_[d].answer = scores[static_cast<std::size_t>(m)][d];
    each_labelled_row(batch, [&](std::int64_t document, bool answer) {
      documents_[static_cast<std::size_t>(document)].tokens += answer;
    });
    collect(batch, documents_);
    all.insert(all.end(), pairs_.begin(), pairs_.end());
  }
  global_.resize(all.size());
  lose(all, global_);
}

double PairObjective::reward(double score, double reference, double tokens) const {
  if (!settings_.reference) reference = 0;
  return settings_.loss.beta * (score - reference) / (means_ ? tokens : 1);
}

void PairObjective::log_pair(const PairScores& p, const PairLoss& loss, LossSums& sums) const {
  const double chosen = reward(p.chosen, p.chosen_reference, p.chosen_tokens),
               rejected = reward(p.rejected, p.rejected_reference, p.rejected_tokens);
  auto add = [&](std::size_t term, double value) {
    sums.terms[term].sum += value;
    sums.terms[term].weight += 1;
  };
  add(kChosen, chosen);
  add(kRejected, rejected);
  add(kAccuracy, chosen > rejected ? 1 : 0);
  add(kMargin, chosen - rejected);
  add(kLogpsChosen, p.chosen / (means_ ? p.chosen_tokens : 1));
  add(kLogpsRejected, p.rejected / (means_ ? p.rejected_tokens : 1));
  if (!odds_) return;
  const double ratio = -loss.value / settings_.loss.beta;  // log σ(log odds)
  add(kOddsRatio, ratio);
  add(kOdds, ratio - log_one_minus_exp(ratio));
}

LossSums PairObjective::score(const PackedBatch& batch, std::span<const float> losses, std::span<float> weights) {
  score_documents(batch, losses, documents_);
  collect(batch, documents_);
  pair_losses_.resize(pairs_.size());
  if (compares_) {
    const auto first = static_cast<std::size_t>(batch.first_group);
    DML_CHECK(first + pairs_.size() <= global_.size());
    std::copy_n(global_.begin() + static_cast<std::ptrdiff_t>(first), pairs_.size(), pair_losses_.begin());
  } else {
    lose(pairs_, pair_losses_);
  }

  LossSums sums;
  sums.denominator = static_cast<double>(pairs_.size());
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    sums.loss += pair_losses_[i].value;
    log_pair(pairs_[i], pair_losses_[i], sums);
    const DocumentScore& chosen = documents_[static_cast<std::size_t>(chosen_[i])];
    if (settings_.nll == NllTokens::none) continue;
    double nll = -chosen.answer, tokens = chosen.tokens;
    if (settings_.nll == NllTokens::whole) nll += chosen.prompt_loss, tokens += chosen.prompt_labels;
    sums.loss += nll_scale_ * nll;
    sums.terms[kNll].sum += nll;
    sums.terms[kNll].weight += tokens;
  }
  if (weights.empty()) return sums;
  std::size_t row = 0;
  each_labelled_row(batch, [&](std::int64_t document, bool answer) {
    const DocumentGroup& g = batch.groups[static_cast<std::size_t>(document)];
    const PairLoss& loss = pair_losses_[static_cast<std::size_t>(g.group)];
    const bool chosen = g.role == DocumentRole::chosen;
    double weight = answer ? -(chosen ? loss.by_chosen : loss.by_rejected) : 0;
    if (chosen && (settings_.nll == NllTokens::whole || (answer && settings_.nll == NllTokens::answer)))
      weight += nll_scale_;
    weights[row++] = static_cast<float>(weight);
  });
  return sums;
}

LossSums PairObjective::train(CausalLm& model, const PackedBatch& batch, PassSeed seed, UnitHooks& hooks) {
  Weights weights(*this, batch);
  model.train(batch, seed, hooks, &weights);
  return weights.sums;
}

// The loss of a pair is that of its chosen document.
LossSums PairObjective::evaluate(CausalLm& model, const PackedBatch& batch, UnitHooks& hooks,
                                 std::span<DocumentLoss> documents) {
  losses_.resize(static_cast<std::size_t>(batch.learned()));
  model.evaluate(batch, hooks, losses_);
  const LossSums sums = score(batch, losses_, {});
  std::ranges::fill(documents, DocumentLoss{});
  for (std::size_t i = 0; i < pairs_.size() && !documents.empty(); ++i)
    documents[static_cast<std::size_t>(chosen_[i])] = {pair_losses_[i].value, 1};
  return sums;
}

std::size_t PairObjective::measure(CausalLm& model, CausalLm::Shape shape, bool backward) {
  const std::size_t scoring = model.measure(shape, false);
  if (!backward) return scoring;
  shape.weighted = true;
  return std::max(scoring, model.measure(shape, true));
}

}  // namespace dml
