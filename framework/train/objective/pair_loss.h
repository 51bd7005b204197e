// Losses of pairs of a chosen and a rejected answer to the same prompt, given their log-probabilities under the trained
// model and, for some losses, the reference. Pure functions in float64, each with its derivatives.
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

/// One pair: sums of log p over the tokens of each answer under the trained model and under the reference, and numbers
/// of tokens.
struct PairScores {
  double chosen = 0, rejected = 0;
  double chosen_reference = 0, rejected_reference = 0;
  double chosen_tokens = 1, rejected_tokens = 1;
  double log_weight = 0;  // the loss is multiplied by its exponential, a constant in the gradient (WPO)
};

/// A loss, and its derivatives by PairScores::chosen and ::rejected.
struct PairLoss {
  double value = 0, by_chosen = 0, by_rejected = 0;
};

/// The divergence whose function replaces u and v (f-DPO, Wang et al. 2023).
enum class Divergence { reverse_kl, forward_kl, js_divergence, alpha_divergence };

struct PairSettings {
  double beta = 0.1;
  double label_smoothing = 0;  // assumed fraction of swapped labels
  double margin = 0;           // simpo: gamma ÷ beta
  Divergence divergence = Divergence::reverse_kl;
  double divergence_alpha = 0.5;
  double temperature = 0.05;  // discopop
};

/// Writes the loss of each pair. `scores` holds all pairs of a step's global batch where the row has `compares_pairs`.
using PairFunction = void (*)(std::span<const PairScores> scores, const PairSettings& settings,
                              std::span<PairLoss> out);

struct PairLossRow {
  std::string name, help;
  PairFunction losses;
  bool compares_pairs = false;     // sorts the pairs of the batch, which therefore have no weights
  bool needs_smoothing = false;    // undefined for label_smoothing: 0
  bool only_reverse_kl = false;    // has no form for the other divergences
  bool by_token_means = false;     // rewards are means over tokens instead of sums
  bool is_log_odds_ratio = false;  // −β log σ(log odds ratio), which is logged
  bool is_method = false;          // of SimPO or ORPO; the others are values of dpo_loss_type or cpo_loss_type
};

/// The losses of `dpo_loss_type`, which use a reference.
const std::vector<PairLossRow>& pair_losses();
/// The losses of CPO, SimPO and ORPO, which use no reference: they do not read the scores' reference fields.
const std::vector<PairLossRow>& reference_free_losses();
/// The row of this name; null when there is none.
const PairLossRow* find_pair_loss(const std::vector<PairLossRow>& rows, std::string_view name);

/// The loss when the trained model equals the reference, which is the loss of a run's first step.
double loss_at_start(const PairLossRow& row, const PairSettings& settings);

}  // namespace dml
