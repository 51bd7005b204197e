// Weights in bfloat16 without a float32 copy: what rounding would lose is kept, and bits do not depend on how a
// parameter is cut.
#include "optim/bf16_weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/bf16.h"
#include "core/error.h"

namespace dml {
namespace {

std::unique_ptr<Optimizer> bf16_of(const char* name, WeightRounding rounding, std::uint64_t seed = 7) {
  return std::make_unique<Bf16Optimizer>(optimizers().at(name).make({}), rounding, seed);
}

/// 2048 weights that begin at 1 and have the same gradient in every step.
struct Weights {
  Parameter parameter{"layers.0.weight", 0, {32, 64}};
  std::vector<float> value = std::vector<float>(2048, 1.f), grad = std::vector<float>(2048, 1.f), state;

  explicit Weights(const Optimizer& optimizer)
      : state(static_cast<std::size_t>(optimizer.state().floats(parameter, 2048))) {}
  void step(const Optimizer& optimizer, std::int64_t number, double rate) {
    const OptimizerSlice slice{value, grad, state, &parameter};
    optimizer.step({&slice, 1}, {rate, number, 1});
  }
  double mean() const {
    double sum = 0;
    for (float v : value) sum += static_cast<double>(v);
    return sum / static_cast<double>(value.size());
  }
};

bool is_bf16(float x) { return (std::bit_cast<std::uint32_t>(x) & 0xffffu) == 0; }

TEST(Bf16Weights, StepsBelowTheirResolutionAreNotLost) {
  // 300 steps of 1e-4 from 1: a bfloat16 there is 2⁻⁸ apart, so that rounding to nearest would never move.
  for (const WeightRounding rounding : {WeightRounding::kahan, WeightRounding::stochastic}) {
    const auto optimizer = bf16_of("sgd", rounding);
    Weights w(*optimizer);
    for (std::int64_t t = 0; t < 300; ++t) {
      w.step(*optimizer, t, 1e-4);
      for (float v : w.value) ASSERT_TRUE(is_bf16(v));
    }
    EXPECT_NEAR(w.mean(), 0.97, rounding == WeightRounding::kahan ? 0.003 : 0.0006);
  }
  const auto plain = optimizers().at("sgd").make({});
  Weights w(*plain);
  for (std::int64_t t = 0; t < 300; ++t) {
    w.step(*plain, t, 1e-4);
    for (float& v : w.value) v = to_float(to_bf16(v));
  }
  EXPECT_EQ(w.mean(), 1);
}

TEST(Bf16Weights, KahanIsTheRuleWithCompensation) {
  const auto optimizer = bf16_of("sgd", WeightRounding::kahan);
  Weights w(*optimizer);
  float value = 1, carried = 0;
  for (std::int64_t t = 0; t < 100; ++t) {
    for (float& g : w.grad) g = static_cast<float>(std::sin(static_cast<double>(t)));
    const float stepped = value - 0.01f * w.grad[0], all = carried + (stepped - value),
                next = to_float(to_bf16(value + all));
    carried = to_float(to_bf16(all + (value - next)));
    value = next;
    w.step(*optimizer, t, 0.01);
    ASSERT_EQ(w.value[5], value) << t;
  }
  EXPECT_EQ(optimizer->state().tensors(w.parameter, 2048).back().name, "compensation");
}

TEST(Bf16Weights, LieInTwoBytesWithTheSameBits) {
  for (const WeightRounding rounding : {WeightRounding::kahan, WeightRounding::stochastic})
    for (const char* name : {"adamw", "muon", "adamw_8bit"}) {
      const auto optimizer = bf16_of(name, rounding);
      Weights wide(*optimizer), narrow(*optimizer);
      wide.parameter.shape = narrow.parameter.shape = {32, 64};
      std::vector<bf16> stored(wide.value.size(), to_bf16(1));
      for (std::int64_t t = 0; t < 10; ++t) {
        for (std::size_t i = 0; i < wide.grad.size(); ++i)
          wide.grad[i] = narrow.grad[i] =
              static_cast<float>(std::sin(static_cast<double>(i + 7) * static_cast<double>(t + 1)));
        wide.step(*optimizer, t, 1e-3);
        OptimizerSlice slice{{}, narrow.grad, narrow.state, &narrow.parameter};
        slice.value16 = stored;
        optimizer->step({&slice, 1}, {1e-3, t, 1});
        for (std::size_t i = 0; i < stored.size(); ++i)
          ASSERT_EQ(to_float(stored[i]), wide.value[i]) << name << " step " << t << " element " << i;
      }
      EXPECT_EQ(narrow.state, wide.state);
    }
  const auto kahan = bf16_of("adamw", WeightRounding::kahan);
  Weights w(*kahan);
  EXPECT_EQ(w.state.size(), 2 * 2048u + 1024u) << "two moments in float32, the compensation in bfloat16";
}

TEST(Bf16Weights, RandomBitsBelongToElementsNotToSlices) {
  const auto optimizer = bf16_of("adamw", WeightRounding::stochastic);
  Weights whole(*optimizer), cut(*optimizer);
  for (std::int64_t t = 0; t < 20; ++t) {
    whole.step(*optimizer, t, 1e-3);
    std::vector<OptimizerSlice> slices;
    for (auto [first, size] : {std::pair<std::size_t, std::size_t>{0, 256}, {256, 1792}})
      slices.push_back({std::span(cut.value).subspan(first, size), std::span(cut.grad).subspan(first, size),
                        std::span(cut.state).subspan(2 * first, 2 * size), &cut.parameter,
                        static_cast<std::int64_t>(first)});
    optimizer->step(slices, {1e-3, t, 1});
    ASSERT_EQ(cut.value, whole.value) << t;
  }
  const auto other = bf16_of("adamw", WeightRounding::stochastic, 8);
  Weights different(*other);
  for (std::int64_t t = 0; t < 20; ++t) different.step(*other, t, 1e-3);
  EXPECT_NE(different.value, whole.value);
}

TEST(Bf16Weights, RoundsUpAsOftenAsTheRestSays) {
  const float x = 1 + 0x1p-7f * 0.25f;  // a quarter of the way to the next one
  int up = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float r = rounded_stochastically(x, bits);
    ASSERT_TRUE(r == 1 || r == 1 + 0x1p-7f);
    up += r > 1;
  }
  EXPECT_EQ(up, 16384);
  EXPECT_TRUE(std::isinf(rounded_stochastically(INFINITY, 0xffff)));
}

TEST(Bf16Weights, OfAnOptimizerThatAveragesAreRefused) {
  EXPECT_THROW(bf16_of("schedule_free_adamw", WeightRounding::kahan), UserError);
}

}  // namespace
}  // namespace dml
