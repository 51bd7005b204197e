#include "train/objective/pair_loss.h"

#include <algorithm>
#include <numbers>
#include <numeric>

#include "train/objective/logistic.h"

namespace dml {
namespace {

// A score of an answer against the reference, f'(p/q) of the divergence, which is 0 where both are equal, and its slope
// by S.
struct Gain {
  double value, slope;
};

Gain gain_of(double x, const PairSettings& s) {
  switch (s.divergence) {
    case Divergence::reverse_kl:
      break;
    case Divergence::forward_kl:
      return {-std::expm1(-x), std::exp(-x)};
    case Divergence::js_divergence:
      return {std::numbers::ln2 + log_sigmoid(x), sigmoid(-x)};
    case Divergence::alpha_divergence: {
      constexpr double kMaxExponent = 80;
      const double by = s.divergence_alpha - 1, power = by * x;
      const double e = std::exp(std::min(power, kMaxExponent));
      return {(e - 1) / by, power < kMaxExponent ? e : 0};
    }
  }
  return {x, 1};
}

// The gains u and v of the two answers, on which most losses depend.
struct Gains {
  double u, v, chosen_tokens, rejected_tokens;
};
// A loss and its derivatives by u and v.
struct Slopes {
  double value, by_u, by_v;
};

template <Slopes (*loss)(const Gains&, const PairSettings&)>
void with_reference(std::span<const PairScores> scores, const PairSettings& s, std::span<PairLoss> out) {
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const PairScores& p = scores[i];
    const Gain u = gain_of(p.chosen - p.chosen_reference, s), v = gain_of(p.rejected - p.rejected_reference, s);
    const Slopes l = loss({u.value, v.value, p.chosen_tokens, p.rejected_tokens}, s);
    out[i] = {l.value, l.by_u * u.slope, l.by_v * v.slope};
  }
}

template <Slopes (*loss)(const Gains&, const PairSettings&)>
void without_reference(std::span<const PairScores> scores, const PairSettings& s, std::span<PairLoss> out) {
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const PairScores& p = scores[i];
    const Slopes l = loss({p.chosen, p.rejected, p.chosen_tokens, p.rejected_tokens}, s);
    out[i] = {l.value, l.by_u, l.by_v};
  }
}

// A function of u − v, from its value and slope there.
Slopes of_difference(double value, double slope) { return {value, slope, -slope}; }

// −(1 − ε) log σ(x) − ε log σ(−x): Bradley–Terry with a share ε of wrong labels (cDPO, Mitchell 2023).
Gain smoothed(double x, double wrong) {
  return {-(1 - wrong) * log_sigmoid(x) - wrong * log_sigmoid(-x), -(1 - wrong) * sigmoid(-x) + wrong * sigmoid(x)};
}

Slopes sigmoid_loss(const Gains& g, const PairSettings& s) {
  const Gain l = smoothed(s.beta * (g.u - g.v), s.label_smoothing);
  return of_difference(l.value, s.beta * l.slope);
}

Slopes hinge_loss(const Gains& g, const PairSettings& s) {
  const double slack = 1 - s.beta * (g.u - g.v);
  return of_difference(std::max(0.0, slack), slack > 0 ? -s.beta : 0);
}

// Azar et al. 2023; on means over tokens, as its authors confirmed.
Slopes ipo_loss(const Gains& g, const PairSettings& s) {
  const double distance = g.u / g.chosen_tokens - g.v / g.rejected_tokens - 1 / (2 * s.beta);
  return {distance * distance, 2 * distance / g.chosen_tokens, -2 * distance / g.rejected_tokens};
}

Slopes exo_loss(const Gains& g, const PairSettings& s) {
  const double x = s.beta * (g.u - g.v), p = sigmoid(x), right = std::log1p(-s.label_smoothing),
               wrong = std::log(s.label_smoothing);
  const double value = p * (log_sigmoid(x) - right) + (1 - p) * (log_sigmoid(-x) - wrong);
  return of_difference(value, s.beta * p * (1 - p) * (x - right + wrong));
}

Slopes nca_loss(const Gains& g, const PairSettings& s) {
  const double u = s.beta * g.u, v = s.beta * g.v;
  return {-log_sigmoid(u) - 0.5 * log_sigmoid(-u) - 0.5 * log_sigmoid(-v), s.beta * (0.5 * sigmoid(u) - sigmoid(-u)),
          0.5 * s.beta * sigmoid(v)};
}

Slopes robust_loss(const Gains& g, const PairSettings& s) {
  const double x = s.beta * (g.u - g.v), wrong = s.label_smoothing, certain = 1 - 2 * wrong;
  return of_difference((-(1 - wrong) * log_sigmoid(x) + wrong * log_sigmoid(-x)) / certain,
                       s.beta * (-(1 - wrong) * sigmoid(-x) - wrong * sigmoid(x)) / certain);
}

Slopes bco_loss(const Gains& g, const PairSettings& s) {
  const double u = s.beta * g.u, v = s.beta * g.v;
  return {-log_sigmoid(u) - log_sigmoid(-v), -s.beta * sigmoid(-u), s.beta * sigmoid(v)};
}

Slopes sppo_loss(const Gains& g, const PairSettings& s) {
  const double aim = 1 / (2 * s.beta), u = g.u - aim, v = g.v + aim;
  return {u * u + v * v, 2 * u, 2 * v};
}

double sigmoid_slope(double x) { return sigmoid(x) * sigmoid(-x); }

Slopes apo_zero_loss(const Gains& g, const PairSettings& s) {
  const double u = s.beta * g.u, v = s.beta * g.v;
  return {1 - sigmoid(u) + sigmoid(v), -s.beta * sigmoid_slope(u), s.beta * sigmoid_slope(v)};
}

Slopes apo_down_loss(const Gains& g, const PairSettings& s) {
  const double u = s.beta * g.u, x = s.beta * (g.u - g.v);
  return {sigmoid(u) + 1 - sigmoid(x), s.beta * (sigmoid_slope(u) - sigmoid_slope(x)), s.beta * sigmoid_slope(x)};
}

// Lu et al. 2024, log-ratio modulated loss.
Slopes discopop_loss(const Gains& g, const PairSettings& s) {
  const double x = s.beta * (g.u - g.v), m = sigmoid(x / s.temperature),
               slope_of_m = m * sigmoid(-x / s.temperature) / s.temperature, logistic = -log_sigmoid(x),
               exponential = std::exp(-x);
  return of_difference((1 - m) * logistic + m * exponential,
                       s.beta * (slope_of_m * (exponential - logistic) - (1 - m) * sigmoid(-x) - m * exponential));
}

Slopes sigmoid_norm_loss(const Gains& g, const PairSettings& s) {
  const double x = s.beta * (g.u / g.chosen_tokens - g.v / g.rejected_tokens), slope = -s.beta * sigmoid(-x);
  return {-log_sigmoid(x), slope / g.chosen_tokens, -slope / g.rejected_tokens};
}

// Pal et al. 2024, DPO-Positive: a chosen answer that is less likely than under the reference is penalized by λ of it.
Slopes positive_loss(const Gains& g, const PairSettings& s) {
  constexpr double kPenalty = 50;  // the authors' λ
  const double penalty = g.u < 0 ? kPenalty : 0, x = s.beta * (g.u - g.v + penalty * g.u), slope = s.beta * sigmoid(-x);
  return {-log_sigmoid(x), -slope * (1 + penalty), slope};
}

std::vector<std::size_t> ascending(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  return order;
}

// Melnyk et al. 2024: the distribution of `better` should dominate that of `worse`, both sorted in ascending order.
// Each loss is assigned to the pairs of its values; calls add(index of better, index of worse, slope).
template <class Add>
void aligned(std::span<const double> better, std::span<const double> worse, const PairSettings& s,
             std::span<PairLoss> out, Add add) {
  const auto a = ascending(better), b = ascending(worse);
  for (PairLoss& l : out) l = {};
  for (std::size_t k = 0; k < a.size(); ++k) {
    const Gain l = smoothed(s.beta * (better[a[k]] - worse[b[k]]), s.label_smoothing);
    out[a[k]].value += l.value;
    add(a[k], b[k], s.beta * l.slope);
  }
}

void aot_losses(std::span<const PairScores> scores, const PairSettings& s, std::span<PairLoss> out) {
  std::vector<double> policy, reference;
  for (const PairScores& p : scores) {
    policy.push_back(p.chosen - p.rejected);
    reference.push_back(p.chosen_reference - p.rejected_reference);
  }
  aligned(policy, reference, s, out, [&](std::size_t i, std::size_t, double slope) {
    out[i].by_chosen = slope;
    out[i].by_rejected = -slope;
  });
}

void aot_unpaired_losses(std::span<const PairScores> scores, const PairSettings& s, std::span<PairLoss> out) {
  std::vector<double> chosen, rejected;
  for (const PairScores& p : scores) {
    chosen.push_back(p.chosen - p.chosen_reference);
    rejected.push_back(p.rejected - p.rejected_reference);
  }
  aligned(chosen, rejected, s, out, [&](std::size_t i, std::size_t j, double slope) {
    out[i].by_chosen = slope;
    out[j].by_rejected = -slope;
  });
}

// Meng et al. 2024.
Slopes simpo_loss(const Gains& g, const PairSettings& s) {
  const Gain l = smoothed(s.beta * (g.u / g.chosen_tokens - g.v / g.rejected_tokens - s.margin), s.label_smoothing);
  return {l.value, s.beta * l.slope / g.chosen_tokens, -s.beta * l.slope / g.rejected_tokens};
}

// Hong et al. 2024: the logarithm of the ratio of the answers' odds, of means over tokens. A mean of 0 (all tokens
// certain) has infinite odds.
Slopes odds_ratio_loss(const Gains& g, const PairSettings& s) {
  constexpr double kCertain = -1e-9;
  const double a = std::min(g.u / g.chosen_tokens, kCertain), b = std::min(g.v / g.rejected_tokens, kCertain);
  const double odds = a - b - (log_one_minus_exp(a) - log_one_minus_exp(b)), slope = -s.beta * sigmoid(-odds);
  return {-s.beta * log_sigmoid(odds), slope / -std::expm1(a) / g.chosen_tokens,
          -slope / -std::expm1(b) / g.rejected_tokens};
}

}  // namespace

const std::vector<PairLossRow>& pair_losses() {
  static const std::vector<PairLossRow> rows = {
      {"sigmoid", "logistic loss of the difference of rewards (DPO; with label smoothing: cDPO)",
       with_reference<sigmoid_loss>},
      {"hinge", "hinge loss of the difference of rewards (SLiC)", with_reference<hinge_loss>},
      {.name = "ipo",
       .help = "squared distance to 1/(2 beta), of means over tokens (IPO)",
       .losses = with_reference<ipo_loss>,
       .by_token_means = true},
      {.name = "exo_pair",
       .help = "reverse Kullback–Leibler distance to smoothed labels (EXO)",
       .losses = with_reference<exo_loss>,
       .needs_smoothing = true},
      {"nca_pair", "rewards themselves instead of their difference (NCA)", with_reference<nca_loss>},
      {"robust", "unbiased where a known share of labels is wrong (robust DPO)", with_reference<robust_loss>},
      {"bco_pair", "a classifier of good and bad answers (BCO)", with_reference<bco_loss>},
      {"sppo_hard", "rewards are to reach ±1/(2 beta) (SPPO)", with_reference<sppo_loss>},
      {.name = "aot",
       .help = "differences of the whole batch, sorted, against those of the reference (AOT)",
       .losses = aot_losses,
       .compares_pairs = true,
       .only_reverse_kl = true},
      {.name = "aot_unpaired",
       .help = "sorted chosen rewards of the whole batch against sorted rejected ones (AOT)",
       .losses = aot_unpaired_losses,
       .compares_pairs = true,
       .only_reverse_kl = true},
      {"apo_zero", "raises chosen and lowers rejected answers (APO)", with_reference<apo_zero_loss>},
      {"apo_down", "lowers both, rejected answers more (APO)", with_reference<apo_down_loss>},
      {"discopop", "logistic and exponential loss, mixed (DiscoPOP)", with_reference<discopop_loss>},
      {.name = "sigmoid_norm",
       .help = "sigmoid, of means over tokens",
       .losses = with_reference<sigmoid_norm_loss>,
       .by_token_means = true},
      // The penalty applies to chosen answers that are less likely than under the reference. Only with reverse_kl does
      // the sign of the log ratio show which those are.
      {.name = "dpop",
       .help = "sigmoid, with 50 times the loss of likelihood of a chosen answer as a penalty (DPO-Positive, λ = 50)",
       .losses = with_reference<positive_loss>,
       .only_reverse_kl = true},
  };
  return rows;
}

const std::vector<PairLossRow>& reference_free_losses() {
  static const std::vector<PairLossRow> rows = {
      {"sigmoid", "logistic loss (CPO)", without_reference<sigmoid_loss>},
      {"hinge", "hinge loss", without_reference<hinge_loss>},
      {.name = "ipo",
       .help = "squared distance to 1/(2 beta), of means over tokens",
       .losses = without_reference<ipo_loss>,
       .by_token_means = true},
      {.name = "simpo",
       .help = "logistic loss of means over tokens with a margin (SimPO)",
       .losses = without_reference<simpo_loss>,
       .by_token_means = true,
       .is_method = true},
      {.name = "orpo",
       .help = "odds ratio of means over tokens (ORPO)",
       .losses = without_reference<odds_ratio_loss>,
       .by_token_means = true,
       .is_log_odds_ratio = true,
       .is_method = true},
  };
  return rows;
}

const PairLossRow* find_pair_loss(const std::vector<PairLossRow>& rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &PairLossRow::name);
  return found == rows.end() ? nullptr : &*found;
}

double loss_at_start(const PairLossRow& row, const PairSettings& settings) {
  const PairScores equal;
  PairLoss loss;
  row.losses({&equal, 1}, settings, {&loss, 1});
  return loss.value;
}

}  // namespace dml
