// Losses of pairs: what a preferred and a rejected answer to the same prompt cost, given their log-probabilities under
// the trained model (and under the reference). Pure functions in float64, each with its derivatives.
//
// Notation: S the sum of log p over the tokens of an answer, n their number, u = S − S_reference of the chosen answer,
// v of the rejected one, Δ = u − v. Formulas as in TRL's DPOTrainer, CPOTrainer and ORPOTrainer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

/// One pair: sums of log p over the tokens of the answers, the same under the reference model, and numbers of tokens.
struct PairScores {
  double chosen = 0, rejected = 0;
  double chosen_reference = 0, rejected_reference = 0;
  double chosen_tokens = 1, rejected_tokens = 1;
  double log_weight = 0;  // the loss counts e^this, which has no gradient (WPO)
};

/// A loss, and its derivatives by PairScores::chosen and ::rejected.
struct PairLoss {
  double value = 0, by_chosen = 0, by_rejected = 0;
};

/// The divergence whose function replaces u and v (f-DPO, Wang et al. 2023).
enum class Divergence { reverse_kl, forward_kl, js_divergence, alpha_divergence };

struct PairSettings {
  double beta = 0.1;
  double label_smoothing = 0;  // share of labels taken to be wrong
  double margin = 0;           // simpo: gamma ÷ beta
  Divergence divergence = Divergence::reverse_kl;
  double divergence_alpha = 0.5;
  double temperature = 0.05;  // discopop
};

/// Writes the loss of each pair. Some compare pairs with each other: `scores` are those of the whole batch of a step.
using PairFunction = void (*)(std::span<const PairScores> scores, const PairSettings& settings,
                              std::span<PairLoss> out);

struct PairLossRow {
  std::string name, help;
  PairFunction losses;
  bool compares_pairs = false;   // depends on the other pairs of the batch
  bool needs_smoothing = false;  // is not defined for label_smoothing: 0
  bool by_token_means = false;   // rewards are of means over tokens, not of sums
};

/// Of `dpo_loss_type`: losses with a reference.
const std::vector<PairLossRow>& pair_losses();
/// Of CPO, SimPO and ORPO: without a reference (the scores' reference fields are not read).
const std::vector<PairLossRow>& reference_free_losses();
/// Null when there is no such row.
const PairLossRow* find_pair_loss(const std::vector<PairLossRow>& rows, std::string_view name);

/// The value of a loss where the trained model is the reference: what the first step of a run has to show.
double loss_at_start(const PairLossRow& row, const PairSettings& settings);

}  // namespace dml
