// Losses of pairs and of labeled answers: values computed in another program, and derivatives against finite
// differences.
#include "train/objective/pair_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/objective/logistic.h"
#include "train/objective/reward_objective.h"
#include "train/objective/unpaired_loss.h"

namespace dml {
namespace {

const std::vector<PairScores> kPairs = {{-20, -22, -21, -21.5, 10, 12}, {-35.5, -30.25, -34, -31, 15, 9}};

std::vector<PairLoss> losses(const PairLossRow& row, const std::vector<PairScores>& scores, const PairSettings& s) {
  std::vector<PairLoss> out(scores.size());
  row.losses(scores, s, out);
  return out;
}

double mean(const PairLossRow& row, const PairSettings& s) {
  double sum = 0;
  for (const PairLoss& l : losses(row, kPairs, s)) sum += l.value;
  return sum / static_cast<double>(kPairs.size());
}

double of_dpo(const char* name, double smoothing = 0) {
  return mean(*find_pair_loss(pair_losses(), name), {.label_smoothing = smoothing});
}

// Float64 values of another implementation.
TEST(PairLoss, HasTheReferencesValues) {
  constexpr double kNear = 1e-9;
  EXPECT_NEAR(of_dpo("sigmoid"), .716459524920, kNear);
  EXPECT_NEAR(of_dpo("sigmoid", 0.1), .712709524920, kNear);
  EXPECT_NEAR(of_dpo("hinge"), 1.0375, kNear);
  EXPECT_NEAR(of_dpo("ipo"), 25.235173611111, kNear);
  EXPECT_NEAR(of_dpo("exo_pair", 0.1), .535788740924, kNear);
  EXPECT_NEAR(of_dpo("nca_pair"), 1.398967728107, kNear);
  EXPECT_NEAR(of_dpo("robust", 0.1), .721147024920, kNear);
  EXPECT_NEAR(of_dpo("bco_pair"), 1.407581748352, kNear);
  EXPECT_NEAR(of_dpo("sppo_hard"), 55.78125, kNear);
  EXPECT_NEAR(of_dpo("aot"), .716459524920, kNear);
  EXPECT_NEAR(of_dpo("aot_unpaired"), .712560981800, kNear);
  EXPECT_NEAR(of_dpo("apo_zero"), 1.009347238630, kNear);
  EXPECT_NEAR(of_dpo("apo_down"), 1.003066693668, kNear);
  EXPECT_NEAR(of_dpo("discopop"), .833068899621, kNear);
  EXPECT_NEAR(of_dpo("sigmoid_norm"), .694222397175, kNear);
  EXPECT_NEAR(of_dpo("dpop"), 4.173199298566, kNear);
  auto free = [](const char* name) { return *find_pair_loss(reference_free_losses(), name); };
  EXPECT_NEAR(mean(free("simpo"), {.beta = 2, .margin = 0.25}), .698833802877, kNear);
  EXPECT_NEAR(mean(free("sigmoid"), {}), .793925312027, kNear);
  EXPECT_NEAR(mean(free("orpo"), {}), .054686805235, kNear);
}

TEST(PairLoss, IsKnownIfTheModelIsItsOwnReference) {
  const double log2 = std::log(2.0);
  auto at_start = [](const char* name, PairSettings s = {}) {
    return loss_at_start(*find_pair_loss(pair_losses(), name), s);
  };
  for (const char* name : {"sigmoid", "aot", "aot_unpaired", "sigmoid_norm", "dpop"})
    EXPECT_DOUBLE_EQ(at_start(name), log2) << name;
  EXPECT_NEAR(at_start("robust", {.label_smoothing = 0.2}), log2, 1e-15);
  EXPECT_DOUBLE_EQ(at_start("hinge"), 1);
  EXPECT_DOUBLE_EQ(at_start("ipo"), 25);
  EXPECT_DOUBLE_EQ(at_start("nca_pair"), 2 * log2);
  EXPECT_DOUBLE_EQ(at_start("bco_pair"), 2 * log2);
  EXPECT_DOUBLE_EQ(at_start("sppo_hard"), 50);
  EXPECT_DOUBLE_EQ(at_start("apo_zero"), 1);
  EXPECT_DOUBLE_EQ(at_start("apo_down"), 1);
  EXPECT_DOUBLE_EQ(at_start("discopop"), (log2 + 1) / 2);
}

// The sum of all losses as a function of one score.
double total(const PairLossRow& row, std::vector<PairScores> scores, const PairSettings& s, std::size_t pair,
             double PairScores::*which, double by) {
  scores[pair].*which += by;
  double sum = 0;
  for (const PairLoss& l : losses(row, scores, s)) sum += l.value;
  return sum;
}

void expect_derivatives(const PairLossRow& row, const PairSettings& s, const std::string& what) {
  const auto found = losses(row, kPairs, s);
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < kPairs.size(); ++i)
    for (auto [which, slope] :
         {std::pair{&PairScores::chosen, found[i].by_chosen}, std::pair{&PairScores::rejected, found[i].by_rejected}}) {
      const double expected =
          (total(row, kPairs, s, i, which, kStep) - total(row, kPairs, s, i, which, -kStep)) / (2 * kStep);
      EXPECT_NEAR(slope, expected, 1e-7 * std::max(1.0, std::abs(expected))) << what << ", pair " << i;
    }
}

TEST(PairLoss, DerivativesAreThoseOfItsValue) {
  const PairSettings plain, smooth{.beta = 0.3, .label_smoothing = 0.1};
  for (const PairLossRow& row : pair_losses()) {
    if (!row.needs_smoothing) expect_derivatives(row, plain, row.name);
    expect_derivatives(row, smooth, row.name + ", smoothed");
    if (row.compares_pairs) continue;
    for (Divergence d : {Divergence::forward_kl, Divergence::js_divergence, Divergence::alpha_divergence})
      expect_derivatives(row, {.beta = 0.2, .label_smoothing = 0.05, .divergence = d},
                         row.name + ", divergence " + std::to_string(static_cast<int>(d)));
  }
  for (const PairLossRow& row : reference_free_losses())
    expect_derivatives(row, {.beta = 0.45, .label_smoothing = 0.1, .margin = 0.25}, row.name);
}

TEST(PairLoss, StaysFiniteFarOut) {
  const std::vector<PairScores> far = {{-1e4, -1, -1, -1e4, 5, 5}, {0, -1e4, -1e4, 0, 5, 5}};
  for (auto* rows : {&pair_losses(), &reference_free_losses()})
    for (const PairLossRow& row : *rows) {
      if (row.name == "discopop") continue;  // grows exponentially by definition
      for (const PairLoss& l : losses(row, far, {.label_smoothing = 0.1}))
        EXPECT_TRUE(std::isfinite(l.value) && std::isfinite(l.by_chosen) && std::isfinite(l.by_rejected)) << row.name;
    }
}

TEST(RewardLoss, HasTheReferencesValues) {
  const double mean = (reward_loss(1.2, 0.4, 0, 0).value + reward_loss(-0.3, 0.1, 0, 0).value) / 2;
  EXPECT_NEAR(mean, .642057959174, 1e-9);
  EXPECT_NEAR(reward_loss(1, 0.5, 0.5, 0).value, std::log(2.0), 1e-12);
  EXPECT_NEAR(reward_loss(1, 0.5, 0.5, 0.1).value, std::log(2.0) + 0.1 * 2.25, 1e-12);
}

TEST(RewardLoss, DerivativesAreThoseOfItsValue) {
  constexpr double h = 1e-6;
  for (const double c : {-2.0, 0.3}) {
    const PairLoss l = reward_loss(c, 0.7, 0.2, 0.05);
    EXPECT_NEAR(l.by_chosen,
                (reward_loss(c + h, 0.7, 0.2, 0.05).value - reward_loss(c - h, 0.7, 0.2, 0.05).value) / (2 * h), 1e-8);
    EXPECT_NEAR(l.by_rejected,
                (reward_loss(c, 0.7 + h, 0.2, 0.05).value - reward_loss(c, 0.7 - h, 0.2, 0.05).value) / (2 * h), 1e-8);
  }
}

TEST(UnpairedLoss, HasTheReferencesValues) {
  auto kto = [](double divergence, bool apo) {
    const UnpairedSettings s{.apo_zero = apo};
    return (unpaired_loss(1, true, divergence, s).value + unpaired_loss(-1.5, true, divergence, s).value +
            unpaired_loss(-.5, false, divergence, s).value + unpaired_loss(.75, false, divergence, s).value) /
           4;
  };
  EXPECT_NEAR(kto(0, false), .504673619315, 1e-9);
  EXPECT_NEAR(kto(0.3, false), .504661199125, 1e-9);
  EXPECT_NEAR(kto(0.3, true), .504673619315, 1e-9);
}

TEST(UnpairedLoss, DerivativesAreThoseOfItsValue) {
  for (bool desirable : {true, false})
    for (bool apo : {true, false}) {
      const UnpairedSettings s{.beta = 0.7, .desirable_weight = 1.5, .undesirable_weight = 0.5, .apo_zero = apo};
      constexpr double kStep = 1e-5;
      const double expected =
          (unpaired_loss(0.4 + kStep, desirable, 0.2, s).value - unpaired_loss(0.4 - kStep, desirable, 0.2, s).value) /
          (2 * kStep);
      EXPECT_NEAR(unpaired_loss(0.4, desirable, 0.2, s).by_score, expected, 1e-9);
    }
}

TEST(Logistic, LogarithmsAreExactFarOut) {
  EXPECT_DOUBLE_EQ(log_sigmoid(-800), -800);
  EXPECT_DOUBLE_EQ(log_sigmoid(800), 0);
  EXPECT_NEAR(log_one_minus_exp(-1e-12), std::log(1e-12), 1e-12);
  EXPECT_NEAR(log_one_minus_exp(-50), -std::exp(-50.0), 1e-30);
}

}  // namespace
}  // namespace dml
