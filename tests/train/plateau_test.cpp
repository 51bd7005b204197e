// reduce_lr_on_plateau against what torch.optim.lr_scheduler.ReduceLROnPlateau (1.13) gives for the same metrics.
#include "train/plateau.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/json.h"

namespace dml {
namespace {

std::vector<double> rates(Plateau& plateau, const std::vector<double>& metrics, double planned,
                          std::int64_t first = 1) {
  std::vector<double> out;
  for (double m : metrics) {
    plateau.on_eval({first++, 0, {{"eval_loss", m}}}, {});
    out.push_back(plateau.learning_rate(planned));
  }
  return out;
}

Plateau with(const char* kwargs, bool greater = false, double peak = 0.1) {
  return Plateau(plateau_settings(Json::parse(kwargs), {"eval_loss", greater}, peak));
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST(Plateau, IsTorchs) {
  Plateau plateau = with(R"({"patience": 1, "factor": 0.5})");
  expect_near(rates(plateau, {3, 2.5, 2.5, 2.6, 2.49999, 2.4, 2.4, 2.4, 2.4, 2.4, 2.4}, 0.1),
              {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.0125, 0.0125});
}

TEST(Plateau, WithAnAbsoluteThresholdAndCooldown) {
  Plateau plateau = with(R"({"patience": 1, "factor": 0.2, "threshold": 0.1, "threshold_mode": "abs", "cooldown": 2})");
  expect_near(rates(plateau, {3, 2.95, 2.93, 2.92, 2.91, 2.9, 2.9, 2.9, 2.9}, 0.1),
              {0.1, 0.1, 0.02, 0.02, 0.02, 0.02, 0.004, 0.004, 0.004});
}

TEST(Plateau, WithAFloor) {
  Plateau plateau = with(R"({"patience": 0, "factor": 0.1, "min_lr": 0.004})");
  expect_near(rates(plateau, {1, 1, 1, 1, 1, 1}, 0.1), {0.1, 0.01, 0.004, 0.004, 0.004, 0.004});
}

TEST(Plateau, OfAMetricThatShouldGrow) {
  Plateau plateau = with(R"({"patience": 1, "factor": 0.1, "mode": "max", "threshold": 0.01})");
  expect_near(rates(plateau, {0.1, 0.2, 0.2, 0.2, 0.3, 0.3, 0.3, 0.3}, 0.1),
              {0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001});
}

TEST(Plateau, TreatsNanAsNoImprovement) {
  Plateau plateau = with(R"({"patience": 1, "factor": 0.1})");
  expect_near(rates(plateau, {3, NAN, NAN, 2, NAN}, 0.1), {0.1, 0.1, 0.01, 0.01, 0.01});
}

TEST(Plateau, ResumesItsState) {
  const std::vector<double> metrics{3, 3, 3, 3, 2.9, 2.9, 2.9, 2.9, 2.9};
  Plateau straight = with(R"({"patience": 1, "factor": 0.5, "cooldown": 1})");
  const std::vector<double> want = rates(straight, metrics, 0.1);
  for (std::size_t cut = 0; cut <= metrics.size(); ++cut) {
    Plateau before = with(R"({"patience": 1, "factor": 0.5, "cooldown": 1})"), after = before;
    std::vector<double> got = rates(before, {metrics.begin(), metrics.begin() + static_cast<std::ptrdiff_t>(cut)}, 0.1);
    TrainState state;
    before.write_state(state);
    state.extra = Json::parse(state.extra.dump());
    after.read_state(state, "checkpoint");
    for (double r : rates(after, {metrics.begin() + static_cast<std::ptrdiff_t>(cut), metrics.end()}, 0.1,
                          static_cast<std::int64_t>(cut) + 1))
      got.push_back(r);
    EXPECT_EQ(got, want) << cut;
  }
}

TEST(Plateau, DoesNotCountTheEvaluationBeforeTrainingNorOtherMetrics) {
  Plateau plateau = with(R"({"patience": 0})");
  plateau.on_eval({0, 0, {{"eval_loss", 1}}}, {});
  plateau.on_eval({1, 0, {{"eval_other", 9}}}, {});
  plateau.on_eval({1, 0, {{"eval_loss", 2}}}, {});
  EXPECT_EQ(plateau.learning_rate(0.1), 0.1);
  plateau.on_eval({2, 0, {{"eval_loss", 2}}}, {});
  EXPECT_NEAR(plateau.learning_rate(0.1), 0.01, 1e-15);
}

TEST(Plateau, RejectsArgumentsOutOfRange) {
  for (const char* bad : {R"({"factor": 1})", R"({"factor": -0.1})", R"({"patience": -1})",
                          R"({"threshold_mode": "relative"})", R"({"mode": "up"})", R"({"cooldown": "two"})"})
    EXPECT_THROW(with(bad), UserError) << bad;
}

}  // namespace
}  // namespace dml
