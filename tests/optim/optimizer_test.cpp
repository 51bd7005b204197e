#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/error.h"
#include "core/json.h"
#include "optim/clip.h"

namespace dml {
namespace {

constexpr std::size_t kDecayed = 16, kAll = 24;

// The same numbers as in tools/make_optim_golden.py.
float gradient(int step, std::size_t i) {
  return static_cast<float>((step * 37 + static_cast<int>(i) * 101) % 257 - 128) / 64;
}
float start(std::size_t i) { return static_cast<float>(static_cast<int>(i * 29 % 61) - 30) / 16; }

// Ten steps on slices cut at `cut`, gradients scaled up beforehand and down by gradient_scale.
std::vector<std::vector<float>> run(const std::string& name, const OptimizerSettings& settings, std::size_t cut) {
  auto optimizer = optimizers().at(name).make(settings);
  std::vector<float> value(kAll), grad(kAll);
  const Parameter decayed{"decayed", 0, {kAll}, {}, true}, plain{"plain", 0, {kAll}, {}, false};
  for (std::size_t i = 0; i < kAll; ++i) value[i] = start(i);
  std::vector<std::vector<float>> states;
  std::vector<OptimizerSlice> slices;
  std::size_t edges[] = {0, cut, kDecayed, kAll};
  states.reserve(3);
  for (int k = 0; k < 3; ++k) {
    std::size_t first = edges[k], size = edges[k + 1] - first;
    states.emplace_back(static_cast<std::size_t>(optimizer->state().floats(plain, static_cast<std::int64_t>(size))));
    slices.push_back({std::span(value).subspan(first, size), std::span(grad).subspan(first, size), states.back(),
                      first < kDecayed ? &decayed : &plain});
  }
  std::vector<std::vector<float>> trace;
  for (int step = 0; step < 10; ++step) {
    for (std::size_t i = 0; i < kAll; ++i) grad[i] = gradient(step, i) * 8;
    optimizer->step(slices, {0.02, step, 0.125});
    trace.push_back(value);
  }
  return trace;
}

void expect_near_golden(const std::string& name, const std::vector<std::vector<float>>& trace) {
  Json golden = read_json(DML_SOURCE_DIR "/tests/golden/optim.json").at(name);
  for (std::size_t step = 0; step < trace.size(); ++step)
    for (std::size_t i = 0; i < kAll; ++i)
      EXPECT_NEAR(trace[step][i], golden[step][i].get<float>(), 1e-6) << name << " step " << step << " element " << i;
}

TEST(Optimizers, TenStepsOfAdamWAreThoseOfPyTorch) {
  OptimizerSettings settings{0.1, 0.9, 0.95, 1e-8};
  expect_near_golden("adamw", run("adamw", settings, 16));
}

TEST(Optimizers, TenStepsOfSgdAreThoseOfPyTorch) {
  OptimizerSettings settings{0.1};
  settings.args["momentum"] = 0.9;
  expect_near_golden("sgd", run("sgd", settings, 16));
}

TEST(Optimizers, LionFollowsItsFormula) {
  auto trace = run("lion", {0.1, 0.9, 0.99}, 16);
  for (std::size_t i = 0; i < kAll; ++i) {
    double value = start(i), m = 0;
    for (int step = 0; step < 10; ++step) {
      double g = gradient(step, i), u = 0.9 * m + 0.1 * g, sign = u > 1e-9 ? 1 : u < -1e-9 ? -1 : 0;
      value -= 0.02 * (sign + (i < kDecayed ? 0.1 * value : 0));
      m = 0.99 * m + 0.01 * g;
    }
    EXPECT_NEAR(trace.back()[i], value, 1e-5);
  }
}

// The numbers of tools/make_adam8_golden.py.
float spread_value(std::size_t i, std::size_t salt) {
  double whole = static_cast<double>((i * 101 + salt * 37) % 257) - 128;
  return static_cast<float>(whole / 64 * std::pow(2.0, -static_cast<double>((i + salt) % 19)));
}

// Ten steps on one parameter, cut at `cut`.
std::vector<float> run_8bit(const std::string& name, std::size_t size, std::size_t cut) {
  auto optimizer = optimizers().at(name).make({0.1, 0.9, 0.95, 1e-8});
  std::vector<float> value(size), grad(size);
  const auto whole = static_cast<std::int64_t>(size);
  const Parameter parameter{"weight", 0, {whole}, {}, true};
  for (std::size_t i = 0; i < size; ++i) value[i] = spread_value(i, 5);
  std::vector<std::vector<float>> states;
  std::vector<OptimizerSlice> slices;
  states.reserve(2);
  for (auto [first, count] : {std::pair<std::size_t, std::size_t>{0, cut}, {cut, size - cut}}) {
    if (count == 0) continue;
    states.emplace_back(
        static_cast<std::size_t>(optimizer->state().floats(parameter, static_cast<std::int64_t>(count))));
    slices.push_back(
        {std::span(value).subspan(first, count), std::span(grad).subspan(first, count), states.back(), &parameter});
  }
  for (int step = 0; step < 10; ++step) {
    for (std::size_t i = 0; i < size; ++i) grad[i] = 4 * spread_value(i, static_cast<std::size_t>(step) + 1);
    optimizer->step(slices, {0.02, step, 0.25});
  }
  return value;
}

TEST(Optimizers, TenStepsOfAdamWInEightBitsAreThoseOfAnIndependentProgram) {
  Json golden = read_json(DML_SOURCE_DIR "/tests/golden/adam8.json").at("adamw");
  auto value = run_8bit("adamw_8bit", 4396, 4396);
  for (std::size_t i = 0; i < golden.size(); ++i) {
    float want = golden[i].get<float>();
    EXPECT_NEAR(value[7 * i], want, 2e-6 * std::max(1.f, std::fabs(want))) << "element " << 7 * i;
  }
}

TEST(Optimizers, StateInEightBitsIsCutAtBlocksWithoutChangingABit) {
  for (const char* name : {"adamw_8bit", "lion_8bit", "ademamix_8bit"})
    for (std::size_t cut : {256, 1024, 4096})
      EXPECT_EQ(run_8bit(name, 4396, 4396), run_8bit(name, 4396, cut)) << name << " at " << cut;
}

TEST(Optimizers, SmallParametersKeepTheirStateInFloat32) {
  EXPECT_EQ(run_8bit("adamw_8bit", 4095, 4095), run_8bit("adamw", 4095, 4095));
  EXPECT_NE(run_8bit("adamw_8bit", 4096, 4096), run_8bit("adamw", 4096, 4096));
  StateLayout layout = optimizers().at("adamw_8bit").make({})->state();
  EXPECT_EQ(layout.floats({"small", 0, {4095}}, 4095), 2 * 4095);
  EXPECT_EQ(layout.floats({"large", 0, {1 << 20}}, 1 << 20),
            (1 << 20) / 2 + 2 * (1 << 12));  // two bytes and 2/64 of one
}

TEST(Optimizers, SlicingDoesNotChangeABit) {
  for (const auto& row : optimizers().rows()) {
    OptimizerSettings settings{0.1};
    settings.target_modules = {"all-linear"};
    if (row.make(settings)->state().whole({"weight", 0, {kAll}})) continue;
    EXPECT_EQ(run(row.name, settings, 16), run(row.name, settings, 5)) << row.name;
  }
}

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Optimizers, ArgumentsAreChecked) {
  OptimizerSettings settings;
  settings.args = Json::parse(R"({"momentun": 0.9})");
  EXPECT_EQ(message([&] { optimizers().at("sgd").make(settings); }),
            "optim_args: unknown argument 'momentun'; did you mean 'momentum'?");
  settings.args = Json::parse(R"({"betas": [0.9]})");
  EXPECT_EQ(message([&] { optimizers().at("adamw").make(settings); }),
            "optim_args: betas must be two numbers, is [0.9]");
  settings.args = Json::parse(R"({"beta1": 1.5})");
  EXPECT_EQ(message([&] { optimizers().at("adamw").make(settings); }), "optim_args: beta1 must be in [0, 1), is 1.5");
  settings.target_modules = {"all-linear"};
  settings.args = Json::parse(R"({"rank": 8.7, "update_proj_gap": 1e300})");
  for (const char* name : {"galore_adamw", "apollo_adamw", "apollo_mini"})
    EXPECT_EQ(message([&] { optimizers().at(name).make(settings); }),
              "optim_args: rank must be a whole number, is 8.7\n"
              "optim_args: update_proj_gap must be in [0, 9007199254740992), is 1e+300");
  settings.args = Json::parse(R"({"ns_steps": 2.5})");
  EXPECT_EQ(message([&] { optimizers().at("muon").make(settings); }),
            "optim_args: ns_steps must be a whole number, is 2.5");
}

TEST(Clip, IsPyTorchsRule) {
  EXPECT_DOUBLE_EQ(gradient_norm(25, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 1 / (4 + 1e-6));
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(1e9, 0), 1);
}

}  // namespace
}  // namespace dml
