#include "diagnose/estimate.h"

#include <gtest/gtest.h>

#include "assembly/base_model.h"
#include "diagnose/operation_count.h"
#include "diagnose/synthetic.h"

namespace dml {
namespace {

TEST(Estimate, OfARunIsItsTrainingAndItsEvaluations) {
  const TokenTimes times{.training = 0.02, .evaluation = 0.005};
  EXPECT_DOUBLE_EQ(run_seconds(times, {.tokens = 10000}, 1), 200);
  EXPECT_DOUBLE_EQ(run_seconds(times, {.tokens = 10000, .evaluations = 4, .evaluation_tokens = 500}, 1), 210);
  EXPECT_DOUBLE_EQ(run_seconds(times, {.tokens = 10000, .evaluations = 4, .evaluation_tokens = 500}, 2), 105);
}

TEST(Estimate, OfAPassIsInProportionToItsOperations) {
  const Recipe recipe =
      read_recipe(
          "model_config: {model_type: llama, vocab_size: 100, hidden_size: 64, intermediate_size: 96,\n"
          "  num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, rms_norm_eps: 1.0e-5,\n"
          "  tie_word_embeddings: false}\n"
          "sequence_len: 16\nmicro_batch_size: 1\nthreads: 1\nlearning_rate: 1e-3\n",
          "recipe.yml", {}, RecipeUse::measure)
          .recipe;
  auto model = build_model(open_base_model(recipe.model).spec, {}, training_of(recipe.adapter, "", 1), "model_config");
  const SyntheticDocument documents[] = {{300, 200}};
  SyntheticBatch batch(documents, 100, 1);
  model->set_length(300);
  model->reserve(model->measure(batch.batch(), true));
  const OperationCount n = count_operations(*model, batch.batch());
  const TokenTimes plain = estimate_pass(*model, batch.batch());
  EXPECT_GT(plain.evaluation, 0);
  EXPECT_NEAR(plain.training / plain.evaluation, n.total() / n.forward, 1e-9);
  model->recompute = RecomputePolicy::layers;  // forward once more
  model->reserve(model->measure(batch.batch(), true));
  const TokenTimes again = estimate_pass(*model, batch.batch());
  EXPECT_NEAR(again.training / again.evaluation, n.total() / n.forward + 1, 1e-9);
}

}  // namespace
}  // namespace dml
