#include "diagnose/scaling_plan.h"
#include "assembly/recipe_names.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace dml {
namespace {

RecipeFile tiny(const std::string& more = "") {
  name_choices();
  return read_recipe(
      "model_config: {model_type: llama, vocab_size: 512, hidden_size: 64, intermediate_size: 128, num_hidden_layers: "
      "4, "
      "num_attention_heads: 4, num_key_value_heads: 4, max_position_embeddings: 128}\n"
      "sequence_len: 64\nmicro_batch_size: 1\nbatch_size: 32\nlearning_rate: 1e-3\noptimizer: adamw_torch\n" +
          more,
      "r.yml", {}, RecipeUse::measure);
}

Network network(double bandwidth, double latency = 0, int ranks_per_host = 1) {
  return {bandwidth, latency, ranks_per_host};
}

TEST(Network, IsReadWithItsUnits) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("1Gbit"), 0.94 * 125e6);
  EXPECT_DOUBLE_EQ(parse_bandwidth("100mbit/s"), 0.94 * 12.5e6);
  EXPECT_DOUBLE_EQ(parse_bandwidth("3 GB"), 0.94 * 3e9);
  EXPECT_DOUBLE_EQ(parse_latency("0.2ms"), 2e-4);
  EXPECT_DOUBLE_EQ(parse_latency("20us"), 2e-5);
  for (const char* text : {"", "fast", "1", "-1Gbit", "1Gbat"}) EXPECT_THROW(parse_bandwidth(text), UserError) << text;
  for (const char* text : {"", "soon", "1", "-1ms"}) EXPECT_THROW(parse_latency(text), UserError) << text;
}

TEST(ScalingPlan, DividesTheWorkWhereTheNetworkIsFast) {
  RecipeFile file = tiny();
  ScalingPlan plan(file.recipe);
  const Calibration& c = plan.calibration();
  EXPECT_EQ(c.tokens, 64);
  EXPECT_GT(c.pass, 0);
  for (const char* name : {"ddp", "zero1", "zero2", "zero3"}) {
    const double alone = plan.forecast(name, 1, 32, network(1e15)).step;
    // Each strategy's own recorded pass, once for every micro-batch: nothing measured twice is compared.
    const double one = plan.forecast(name, 1, 1, network(1e15)).step;
    EXPECT_GE(alone, 0.999 * (32 * (one - c.update) + c.update)) << name;
    auto two = plan.forecast(name, 2, 32, network(1e15)), slow = plan.forecast(name, 2, 32, network(1));
    EXPECT_GT(two.step, alone / 2) << name;
    EXPECT_GT(slow.step, two.step) << name;
    // At a byte a second nothing but the network counts, however slow the machine was when it measured the pass.
    EXPECT_NEAR(slow.waiting / slow.sent, 1, 0.2) << name;
  }
}

TEST(ScalingPlan, SendsAndHoldsWhatTheStrategiesDo) {
  RecipeFile file = tiny();
  ScalingPlan plan(file.recipe);
  auto of = [&](const char* name, int ranks, int per_host = 1) {
    return plan.forecast(name, ranks, 32, network(1, 0, per_host));
  };
  const double ddp = of("ddp", 4).sent;
  EXPECT_NEAR(of("zero1", 4).sent, ddp, 0.01 * ddp);  // sums to their owners, values to all
  // Gradients in each of eight rounds; the last rank owns the odd blocks, and so sends a little less of others'.
  EXPECT_NEAR(of("zero2", 4).sent, ddp * (8 + 1) / 2, 0.05 * ddp * (8 + 1) / 2);
  EXPECT_GT(of("zero3", 4).memory, 0);
  EXPECT_LT(of("zero1", 4).memory, of("ddp", 4).memory);
  EXPECT_LT(of("zero3", 4).memory, of("zero2", 4).memory);
  EXPECT_LT(of("zero3", 4).memory, of("hybrid", 4, 2).memory);
  EXPECT_LT(of("hybrid", 4, 2).waiting, of("zero3", 4, 2).waiting);  // values stay within a host
  EXPECT_LT(of("hybrid", 4, 2).memory, of("hybrid_zero2", 4, 2).memory);
  EXPECT_LT(of("hybrid_zero2", 4, 2).memory, of("ddp", 4).memory);
  EXPECT_THROW(plan.forecast("hybrid", 4, 32, network(1e8, 0, 3)), UserError);

  RecipeFile half = tiny("comm_dtype: bf16\n");
  EXPECT_NEAR(ScalingPlan(half.recipe).forecast("ddp", 4, 32, network(1e8)).sent, ddp / 2, 0.01 * ddp);
}

}  // namespace
}  // namespace dml
