#include "optim/groups.h"

#include <gtest/gtest.h>

namespace dml {
namespace {

Parameter named(std::string name, ParameterRole role = ParameterRole::hidden) {
  Parameter p;
  p.name = std::move(name);
  p.role = role;
  return p;
}

TEST(LearningRateGroups, WithoutSettingsEveryParameterIsTreatedAlike) {
  LearningRateGroups groups;
  groups.peak = 2e-4;
  EXPECT_EQ(groups.rule(named("model.embed_tokens.weight", ParameterRole::embedding)).learning_rate_scale, 1);
  EXPECT_TRUE(groups.rule(named("model.embed_tokens.weight", ParameterRole::embedding)).decay);
}

TEST(LearningRateGroups, EmbeddingsHaveTheirOwnRateAndNoDecay) {
  LearningRateGroups groups;
  groups.peak = 2e-4;
  groups.embedding_scale = 0.5;
  EXPECT_EQ(groups.rule(named("embed_out.weight", ParameterRole::head)).learning_rate_scale, 0.5f);
  EXPECT_FALSE(groups.rule(named("embed_out.weight", ParameterRole::head)).decay);
  EXPECT_EQ(groups.rule(named("model.norm.weight")).learning_rate_scale, 1);
  groups.embedding = 5e-5;
  EXPECT_FLOAT_EQ(groups.rule(named("model.embed_tokens.weight", ParameterRole::embedding)).learning_rate_scale, 0.25f);
}

TEST(LearningRateGroups, TheFirstGroupThatMatchesWins) {
  LearningRateGroups groups;
  groups.peak = 1e-4;
  groups.groups = {{{"q_proj", "k_proj"}, 2e-4}, {{"proj"}, 5e-5}};
  EXPECT_FLOAT_EQ(groups.rule(named("model.layers.0.self_attn.k_proj.weight")).learning_rate_scale, 2);
  EXPECT_FLOAT_EQ(groups.rule(named("model.layers.0.mlp.up_proj.weight")).learning_rate_scale, 0.5f);
  EXPECT_EQ(groups.rule(named("model.layers.0.input_layernorm.weight")).learning_rate_scale, 1);
}

}  // namespace
}  // namespace dml
