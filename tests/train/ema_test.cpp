// The average of weights beside an optimizer, computed again here, and swapped in and out.
#include "train/ema.h"
#include "train/moving_reference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace dml {
namespace {

struct EmaRun {
  Parameter parameter;
  std::vector<float> value, grad, state;

  explicit EmaRun(const Optimizer& optimizer, std::int64_t rows = 3) {
    parameter.shape = {rows, 4};
    value.resize(static_cast<std::size_t>(rows * 4));
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<float>(std::cos(static_cast<double>(i)));
    state.assign(static_cast<std::size_t>(optimizer.state().floats(parameter, rows * 4)), 0);
  }
  /// Elements [first, last) with their own state in the memory of the whole.
  std::vector<OptimizerSlice> slices() { return {{value, grad, state, &parameter}}; }
  void step(const Optimizer& optimizer, std::int64_t t) {
    grad.resize(value.size());
    for (std::size_t i = 0; i < grad.size(); ++i)
      grad[i] = static_cast<float>(std::sin(static_cast<double>(t + 3) * static_cast<double>(i + 1)));
    optimizer.step(slices(), {0.1, t, 1});
  }
};

std::unique_ptr<Optimizer> plain(const std::string& name) { return optimizers().at(name).make(OptimizerSettings{}); }

TEST(Ema, IsTheWeightedSumOfAllWeightsAndLeavesTrainingAlone) {
  for (const char* name : {"adamw", "sgd", "adamw_8bit"}) {
    const auto alone = plain(name);
    const AveragedOptimizer averaged(plain(name), 0.9);
    EmaRun a(*alone, 2048), b(averaged, 2048);  // large enough for state in bytes
    std::vector<double> average(a.value.begin(), a.value.end());
    averaged.switch_to_average(b.slices());
    EXPECT_EQ(a.value, b.value) << "before the first step there is no average";
    averaged.switch_to_training_point(b.slices());
    for (std::int64_t t = 0; t < 25; ++t) {
      a.step(*alone, t);
      b.step(averaged, t);
      ASSERT_EQ(a.value, b.value) << name << " step " << t;
      const double decay = std::min(0.9, (1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
      for (std::size_t i = 0; i < average.size(); ++i) average[i] = decay * average[i] + (1 - decay) * a.value[i];
    }
    averaged.switch_to_average(b.slices());
    for (std::size_t i = 0; i < average.size(); ++i) ASSERT_NEAR(b.value[i], average[i], 1e-5) << name << " " << i;
    averaged.switch_to_training_point(b.slices());
    EXPECT_EQ(a.value, b.value);
  }
}

TEST(Ema, IsStateOfItsOwnBesideTheOptimizers) {
  const AveragedOptimizer averaged(plain("adamw"), 0.999);
  Parameter p;
  p.shape = {6, 4};
  std::vector<std::string> names;
  for (const StateTensor& t : averaged.state().tensors(p, p.size())) names.push_back(t.name);
  EXPECT_EQ(names, (std::vector<std::string>{"state0", "state1", "average", "average_steps"}));
  EXPECT_EQ(averaged.state().floats(p, 24), 3 * 24 + 1);
}

TEST(Ema, OfAnOptimizerThatAveragesIsRefused) {
  EXPECT_THROW(AveragedOptimizer(plain("schedule_free_sgd"), 0.9), UserError);
}

// r ← α·w + (1 − α)·r after every third step, from the weights before the first; swapped in and out without a trace.
TEST(MovingReference, FollowsEveryFewSteps) {
  const auto alone = plain("adamw");
  const ReferenceOptimizer moving(plain("adamw"), 0.25, 3);
  EmaRun a(*alone), b(moving);
  std::vector<double> reference(a.value.begin(), a.value.end());
  for (std::int64_t t = 0; t < 8; ++t) {
    a.step(*alone, t), b.step(moving, t);
    for (std::size_t i = 0; t % 3 == 2 && i < reference.size(); ++i)
      reference[i] = 0.25 * static_cast<double>(a.value[i]) + 0.75 * reference[i];
    EXPECT_EQ(a.value, b.value);
    moving.swap(b.slices());
    for (std::size_t i = 0; i < reference.size(); ++i) ASSERT_NEAR(b.value[i], reference[i], 1e-6) << "step " << t;
    moving.swap(b.slices());
    EXPECT_EQ(a.value, b.value);
  }
  EXPECT_THROW(ReferenceOptimizer(plain("schedule_free_sgd"), 0.5, 2), UserError);
}

}  // namespace
}  // namespace dml
