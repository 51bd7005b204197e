#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "core/error.h"

namespace dml {
namespace {

constexpr double kPeak = 2e-4;
constexpr std::int64_t kSteps = 100, kWarmup = 10;

ScheduleSettings settings(const std::string& name, const std::string& kwargs = "{}") {
  ScheduleSettings s;
  s.name = name;
  s.peak = kPeak;
  s.steps = kSteps;
  s.warmup_steps = kWarmup;
  s.kwargs = Json::parse(kwargs);
  return s;
}

void expect_factors(const ScheduleSettings& s, const std::function<double(double step, double p)>& factor,
                    double warmup_from = 0) {
  LearningRate schedule(s);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    auto x = static_cast<double>(step);
    double expected = step < kWarmup ? warmup_from + (1 - warmup_from) * (x + 1) / 10 : factor(x, (x - 10) / 90);
    EXPECT_NEAR(schedule.at(step), kPeak * expected, kPeak * 1e-12) << s.name << " step " << step;
  }
}

double cosine(double p) { return 0.5 * (1 + std::cos(std::numbers::pi * p)); }

TEST(LearningRate, ShapesFollowTheirFormulas) {
  expect_factors(settings("cosine"), [](double, double p) { return cosine(p); });
  expect_factors(settings("linear"), [](double, double p) { return 1 - p; });
  expect_factors(settings("constant"), [](double, double) { return 1; });
  expect_factors(settings("constant_with_warmup"), [](double, double) { return 1; });
  expect_factors(settings("cosine_with_restarts", R"({"num_cycles": 3})"),
                 [](double, double p) { return cosine(std::fmod(3 * p, 1)); });
  expect_factors(settings("cosine_with_min_lr", R"({"min_lr_rate": 0.1})"),
                 [](double, double p) { return 0.1 + 0.9 * cosine(p); });
  expect_factors(settings("cosine_with_min_lr", R"({"min_lr": 2e-5})"),
                 [](double, double p) { return 0.1 + 0.9 * cosine(p); });
  expect_factors(settings("polynomial", R"({"power": 2, "lr_end": 2e-6})"),
                 [](double, double p) { return 0.01 + 0.99 * (1 - p) * (1 - p); });
  expect_factors(settings("inverse_sqrt"), [](double s, double) { return std::sqrt(10 / s); });
  expect_factors(
      settings("warmup_stable_decay", R"({"num_decay_steps": 20, "decay_type": "linear", "min_lr_ratio": 0.2})"),
      [](double s, double) { return s < 80 ? 1 : 0.2 + 0.8 * (1 - (s - 80) / 20); }, 0.2);
  expect_factors(settings("rex"), [](double, double p) { return (1 - p) / (0.1 + 0.9 * (1 - p)); });
}

TEST(LearningRate, CosineHasAFloorAndAConstantTail) {
  ScheduleSettings s = settings("cosine");
  s.min_lr_ratio = 0.25;
  expect_factors(s, [](double, double p) { return 0.25 + 0.75 * cosine(p); });
  s.constant_lr_ratio = 0.7;
  expect_factors(s, [](double step, double) { return 0.25 + 0.75 * cosine(std::min(1.0, (step - 10) / 60)); });
}

TEST(LearningRate, OneCycleIsPyTorchs) {
  ScheduleSettings s = settings("one_cycle");
  s.peak = 0.01;
  s.steps = 40;
  LearningRate schedule(s);
  Json golden = read_json(DML_SOURCE_DIR "/tests/golden/optim.json").at("one_cycle");
  for (std::int64_t step = 0; step < 40; ++step)
    EXPECT_NEAR(schedule.at(step), golden[static_cast<std::size_t>(step)].get<double>(), 1e-9) << step;
}

// The numbers are those of PyTorch's OneCycleLR with pct_start=0.
TEST(LearningRate, OneCycleWithoutAWarmupHasItsFirstStepBelowThePeak) {
  ScheduleSettings s = settings("one_cycle", R"({"pct_start": 0})");
  s.peak = 0.01;
  s.steps = 6;
  s.warmup_steps = 0;
  LearningRate schedule(s);
  std::int64_t step = 0;
  for (double expected :
       {0.00933012969841412, 0.00750001, 0.00500002, 0.0025000300000000016, 0.0006699103015858822, 4e-08})
    EXPECT_NEAR(schedule.at(step++), expected, 1e-9);
}

TEST(LearningRate, WarmupHasAxolotlsDefaults) {
  ScheduleSettings s = settings("cosine");
  s.warmup_steps.reset();
  EXPECT_EQ(warmup_length(s), 3);
  s.steps = 100000;
  EXPECT_EQ(warmup_length(s), 100);
  s.steps = 50;
  EXPECT_EQ(warmup_length(s), 1);
  s.warmup_ratio = 0.1;
  EXPECT_EQ(warmup_length(s), 5);
  s.warmup_steps = 0;
  EXPECT_EQ(warmup_length(s), 0);
  s = settings("constant");
  s.warmup_steps.reset();
  EXPECT_EQ(warmup_length(s), 0);
}

TEST(LearningRate, JaggedRestartsMultiplyTheSchedule) {
  ScheduleSettings s = settings("cosine");
  LearningRate plain(s);
  s.restart_steps = 20;
  s.restart_warmup = 4;
  s.restart_anneal = 5;
  LearningRate jagged(s);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    // Written out by hand: r = 0 … 3 after a restart, r = 16 … 19 before the next.
    constexpr double kRise[] = {0.25, 0.5, 0.75, 1}, kFall[] = {0.8, 0.6, 0.4, 0.2};
    std::int64_t r = step % 20;
    double factor = r < 4 && step >= 20 ? kRise[r] : r >= 16 ? kFall[r - 16] : 1;
    EXPECT_NEAR(jagged.at(step), plain.at(step) * factor, 1e-18) << step;
  }
}

TEST(LearningRate, QuadraticWarmupIsTheSquareOfTheLinearOne) {
  ScheduleSettings s = settings("cosine");
  s.quadratic_warmup = true;
  EXPECT_NEAR(LearningRate(s).at(4), kPeak * 0.25, 1e-15);
}

// In Axolotl, too, each of these keys acts on few schedules, and a quadratic warmup ends at zero.
TEST(LearningRate, KeysOfTheCosineActOnTheSchedulesThatReadThem) {
  const auto with = [](std::string name, std::string kwargs, auto&& change) {
    ScheduleSettings s = settings(name, kwargs);
    change(s);
    return LearningRate(s);
  };
  const auto square = [](ScheduleSettings& s) { s.quadratic_warmup = true; };
  const auto low = [](ScheduleSettings& s) { s.min_lr_ratio = 0.25; };
  const auto tail = [](ScheduleSettings& s) { s.min_lr_ratio = 0.25, s.constant_lr_ratio = 0.5; };
  const auto all = [](ScheduleSettings& s) {
    s.quadratic_warmup = true, s.min_lr_ratio = 0.25, s.constant_lr_ratio = 0.5;
  };
  const auto same = [](const LearningRate& a, const LearningRate& b) {
    for (std::int64_t step = 0; step < kSteps; ++step)
      if (a.at(step) != b.at(step)) return false;
    return true;
  };
  EXPECT_TRUE(same(with("cosine", "{}", all), with("cosine", "{}", square)));
  expect_factors(
      [&] {
        ScheduleSettings s = settings("cosine_with_min_lr", R"({"min_lr_rate": 0.3})");
        square(s);
        return s;
      }(),
      [](double, double p) { return 0.3 + 0.7 * cosine(p); });
  EXPECT_TRUE(same(with("rex", "{}", tail), with("rex", "{}", low)));
  for (const char* name : {"linear", "cosine_with_restarts", "warmup_stable_decay", "polynomial", "one_cycle"})
    EXPECT_TRUE(same(with(name, "{}", all), LearningRate(settings(name)))) << name;
}

TEST(LearningRate, WarmupLongerThanTheRunIsHarmless) {
  ScheduleSettings s = settings("cosine");
  s.warmup_steps = 500;
  EXPECT_NEAR(LearningRate(s).at(99), kPeak * 0.2, 1e-15);
  for (auto& row : schedules().rows()) {
    ScheduleSettings one = settings(row.name, row.name == "cosine_with_min_lr" ? R"({"min_lr": 0})" : "{}");
    one.steps = 1;
    one.warmup_steps = 0;
    double rate = LearningRate(one).at(0);
    EXPECT_TRUE(std::isfinite(rate) && rate >= 0) << row.name;
  }
}

std::string message(const ScheduleSettings& s) {
  try {
    LearningRate schedule(s);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// transformers refuses these, too; without a check the rate would climb to the "minimum".
TEST(LearningRate, TheMinimumIsGivenOnceAndIsNotAboveThePeak) {
  EXPECT_EQ(message(settings("polynomial", R"({"lr_end": 1})")),
            "lr_scheduler_kwargs: lr_end must be at least 0 and below learning_rate, which is 0.0002, is 1");
  ScheduleSettings low = settings("polynomial");
  low.peak = 5e-8;
  EXPECT_EQ(message(low),
            "lr_scheduler_kwargs: lr_end must be at least 0 and below learning_rate, which is 5e-08, is 1e-07 unless "
            "it is set");
  EXPECT_EQ(message(settings("cosine_with_min_lr", R"({"min_lr": 1})")),
            "lr_scheduler_kwargs: min_lr must be at least 0 and at most learning_rate, which is 0.0002, is 1");
  EXPECT_EQ(message(settings("rex", R"({"min_lr": 3e-4})")),
            "lr_scheduler_kwargs: min_lr must be at least 0 and at most learning_rate, which is 0.0002, is 0.0003");
  EXPECT_EQ(message(settings("cosine_with_min_lr", R"({"min_lr": 1e-5, "min_lr_rate": 0.1})")),
            "lr_scheduler_kwargs: set either min_lr or min_lr_rate, not both");
  EXPECT_EQ(message(settings("cosine_with_min_lr")),
            "lr_scheduler_kwargs: cosine_with_min_lr needs min_lr, at least 0 and at most learning_rate, which is "
            "0.0002, or min_lr_rate, at least 0 and at most 1");
  EXPECT_EQ(message(settings("cosine_with_min_lr", R"({"min_lr": 2e-4})")), "");
  ScheduleSettings ratio = settings("cosine_with_min_lr");
  ratio.min_lr_ratio = 0.25;  // Axolotl's cosine_min_lr_ratio
  expect_factors(ratio, [](double, double p) { return 0.25 + 0.75 * cosine(p); });
}

TEST(LearningRate, UnknownNamesAndArgumentsNameTheNearest) {
  EXPECT_EQ(message(settings("cosin")), "unknown learning rate schedule 'cosin'; did you mean 'cosine'?");
  EXPECT_EQ(message(settings("polynomial", R"({"powr": 2})")),
            "lr_scheduler_kwargs: 'powr' is not an argument of polynomial; did you mean 'power'?");
  EXPECT_NE(message(settings("polynomial", R"({"power": "two"})")).find("'power' must be"), std::string::npos);
  EXPECT_EQ(message(settings("inverse_sqrt", R"({"timescale": 0})")),
            "lr_scheduler_kwargs: timescale must be above 0, is 0");
  EXPECT_EQ(message(settings("one_cycle", R"({"pct_start": 1.5})")),
            "lr_scheduler_kwargs: pct_start must be at least 0 and at most 1, is 1.5");
  EXPECT_EQ(message(settings("polynomial", R"({"power": -1})")),
            "lr_scheduler_kwargs: power must be at least 0, is -1");
}

}  // namespace
}  // namespace dml
