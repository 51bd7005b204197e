#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample.h"

namespace dml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Overrides, TakeEverySpelling) {
  auto r = parsed("seed: 1\nnoisy_embedding_alpha: 2\n", {"--learning_rate",
                                                          "1e-4",
                                                          "--micro-batch-size=3",
                                                          "--sample_packing",
                                                          "--no-shuffle-merged-datasets",
                                                          "--seed",
                                                          "9",
                                                          "--neftune-noise-alpha",
                                                          "5",
                                                          "--special_tokens.pad_token",
                                                          "<pad>",
                                                          "--datasets.0.path",
                                                          "x y.jsonl",
                                                          "--datasets.1.path=z",
                                                          "--model_config.hidden_size",
                                                          "32",
                                                          "--tokens",
                                                          "[a, b]",
                                                          "--lora_target_modules=[q_proj, v_proj]",
                                                          "--adapter",
                                                          "lora",
                                                          "--chat_template_jinja",
                                                          "{{ messages }}",
                                                          "--gradient_accumulation_steps",
                                                          "2"});
  EXPECT_EQ(r.optim.learning_rate, 1e-4);
  EXPECT_EQ(r.train.micro_batch_size, 3);
  EXPECT_TRUE(r.data.sample_packing);
  EXPECT_FALSE(r.data.shuffle_merged_datasets);
  EXPECT_EQ(r.train.seed, 9);
  EXPECT_EQ(r.train.neftune_noise_alpha, 5);
  EXPECT_EQ(r.model.special_tokens.pad_token, "<pad>");
  ASSERT_EQ(r.data.datasets.size(), 2u);
  EXPECT_EQ(r.data.datasets[0].path, "x y.jsonl");
  EXPECT_EQ(r.data.datasets[0].type.name, "alpaca");
  EXPECT_EQ(r.data.datasets[1].path, "z");
  EXPECT_EQ(r.model.model_config["hidden_size"], 32);
  EXPECT_THAT(r.model.tokens, ElementsAre("a", "b"));
  EXPECT_THAT(r.adapter.lora_target_modules.names, ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(r.templates.chat_template_jinja, "{{ messages }}");
}

TEST(Overrides, ReplaceTheOtherWayToGiveASetting) {
  const std::string recipe = "gradient_accumulation_steps: 2\nwarmup_ratio: 0.1\n";
  const Recipe r = parsed(recipe, {"--batch_size", "8", "--warmup_steps", "3"});
  EXPECT_EQ(r.train.batch_size, 8);
  EXPECT_FALSE(r.train.gradient_accumulation_steps);
  for (const char* unset : {"--batch_size=", "--batch_size=null", "--batch_size=~"})
    EXPECT_EQ(parsed(recipe, {unset}).train.gradient_accumulation_steps, 2) << unset;
  EXPECT_THAT(
      [&] {
        parsed(recipe, {"--batch_size", "8", "--gradient_accumulation_steps", "4"});
      },
      testing::ThrowsMessage<UserError>(HasSubstr("not both")));
  // β has three names.
  EXPECT_EQ(parsed("rl: dpo\nrl_beta: 0.1\n", {"--trl.beta", "0.2"}).preference.beta(), 0.2);
  EXPECT_EQ(parsed("rl: dpo\ntrl: {beta: 0.1, epsilon: 0.3}\n", {"--dpo_beta", "0.2"}).preference.beta(), 0.2);
  EXPECT_EQ(parsed("rl: orpo\norpo_alpha: 0.1\n", {"--rl_beta", "0.2"}).preference.beta(), 0.2);
  EXPECT_THAT(
      [&] {
        parsed("rl: dpo\n", {"--rl_beta", "0.1", "--trl.beta", "0.2"});
      },
      testing::ThrowsMessage<UserError>(HasSubstr("not both")));
}

TEST(Overrides, CanUnset) {
  EXPECT_FALSE(parsed("max_steps: 5", {"--max_steps", "null"}).train.max_steps);
  EXPECT_FALSE(parsed("max_steps: 5", {"--max_steps="}).train.max_steps);
}

TEST(Overrides, LeaveTheirOrigin) {
  auto file = read_recipe(kSample, "r.yml", parse_overrides({"--seed", "3", "--datasets.0.split", "dev"}));
  EXPECT_EQ(file.origins.at("seed"), "command line");
  EXPECT_EQ(file.origins.at("datasets.0.split"), "command line");
  EXPECT_EQ(file.origins.at("datasets.0.path"), "r.yml:3:11");
}

TEST(Overrides, ThatAreWrongAreErrors) {
  EXPECT_THAT(problems("", {"--learnig-rate", "1"}),
              HasSubstr("unknown option '--learnig-rate'; did you mean '--learning_rate'?"));
  EXPECT_THAT(problems("", {"--datasets.0.pth=1"}),
              HasSubstr("unknown option '--datasets.0.pth'; did you mean '--datasets.0.path'?"));
  EXPECT_THAT(problems("", {"--seed"}), HasSubstr("option '--seed' needs a value"));
  EXPECT_THAT(problems("", {"--seed", "--debug"}), HasSubstr("option '--seed' needs a value"));
  EXPECT_THAT(problems("", {"stray"}), HasSubstr("unexpected argument 'stray'"));
  EXPECT_THAT(problems("", {"--lora_r", "x"}), HasSubstr("command line: 'lora_r' must be an integer"));
  EXPECT_THAT(problems("", {"--datasets.5.path", "x"}),
              HasSubstr("command line: --datasets.5.path: the list has 1 entries"));
  EXPECT_THAT(problems("", {"--tokens", "[a"}), HasSubstr("--tokens:1:"));
  EXPECT_THAT(problems("", {"--warmup_steps", "3", "--warmup_ratio", "0.1"}), HasSubstr("not both"));
  EXPECT_EQ(problems("", {"--wandb_project", "x"}), "");
}

}  // namespace
}  // namespace dml
