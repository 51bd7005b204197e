// The layout that dml train gives a recipe, on hosts that are made up.
#include "pipeline/own_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "assembly/recipe_names.h"
#include "core/error.h"
#include "core/files.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::HasSubstr;

class OwnRanks : public testing::Test {
 protected:
  OwnRanks() {
    name_choices();
    std::string rows;
    for (int i = 0; i < 64; ++i)
      rows += fmt::format("{{\"instruction\": \"number {}\", \"output\": \"the answer is {}\"}}\n", i, i * i);
    write_file(folder / "rows.jsonl", rows);
  }
  // Two thousand steps of four small micro-batches.
  RecipeFile recipe(const std::vector<Override>& overrides = {}) const {
    return read_recipe(
        fmt::format("model_config: {{model_type: llama, vocab_size: 2048, hidden_size: 256, intermediate_size: 512, "
                    "num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2, "
                    "max_position_embeddings: 256, rms_norm_eps: 1.0e-5}}\n"
                    "tokenizer_config: {}/datasets/quickstart/tokenizer\n"
                    "datasets: [{{path: {}, type: alpaca}}]\n"
                    "dataset_prepared_path: {}\n"
                    "output_dir: {}\n"
                    "sequence_len: 128\n"
                    "micro_batch_size: 1\n"
                    "gradient_accumulation_steps: 4\n"
                    "learning_rate: 1e-3\n"
                    "max_steps: 2000\n",
                    DML_SOURCE_DIR, folder / "rows.jsonl", folder / "prepared", folder / "out"),
        "recipe.yml", overrides);
  }
  static Topology host(int cores) { return synthetic_topology(fmt::format("pack:1 numa:1 l3:1 core:{} pu:2", cores)); }

  testing_tools::TemporaryFolder folder;
};

TEST_F(OwnRanks, AreAsManyAsTrainFastest) {
  const LayoutChoice four = layout_of(recipe(), host(4));
  EXPECT_EQ(four.layout, (RankLayout{4, 1}));
  EXPECT_THAT(four.why, testing::MatchesRegex("micro-batches of [0-9]+ tokens are small for 4 threads"));
  EXPECT_EQ(layout_of(recipe(), host(16)).layout, (RankLayout{4, 4})) << "a step has four micro-batches";
  EXPECT_EQ(layout_of(recipe({{"batch_size", "16"}, {"gradient_accumulation_steps", ""}}), host(16)).layout,
            (RankLayout{8, 2}));
}

TEST_F(OwnRanks, AreOneOnFewCores) {
  for (int cores : {1, 2}) {
    const LayoutChoice choice = layout_of(recipe(), host(cores));
    EXPECT_EQ(choice.layout, (RankLayout{1, cores}));
    EXPECT_EQ(choice.why, "");
  }
  EXPECT_FALSE(file_exists(folder / "prepared")) << "nothing had to be known";
}

TEST_F(OwnRanks, AreOneWhereMoreWouldNotHelp) {
  const auto why = [&](const std::vector<Override>& overrides) {
    const LayoutChoice choice = layout_of(recipe(overrides), host(16));
    EXPECT_EQ(choice.layout, (RankLayout{1, 16}));
    return choice.why;
  };
  EXPECT_EQ(why({{"gradient_accumulation_steps", "1"}}), "a step has one micro-batch");
  EXPECT_THAT(why({{"gradient_tree", "false"}}), HasSubstr("gradient_tree: false"));
  EXPECT_THAT(why({{"comm_dtype", "bf16"}}), HasSubstr("comm_dtype: bf16"));
  EXPECT_THAT(why({{"max_steps", "5"}}), HasSubstr("too short"));
  EXPECT_EQ(why({{"distribution", "none"}}), "'distribution' refuses more ranks");
  setenv("SLURM_JOB_ID", "7", 1);
  EXPECT_EQ(why({}), "a batch job starts its own ranks");
  unsetenv("SLURM_JOB_ID");
}

TEST_F(OwnRanks, FollowTheRecipe) {
  const LayoutChoice two = layout_of(recipe({{"ranks", "2"}}), host(16));
  EXPECT_EQ(two.layout, (RankLayout{2, 8}));
  EXPECT_EQ(two.why, "ranks: 2");
  EXPECT_EQ(layout_of(recipe({{"ranks", "2"}, {"threads", "3"}}), host(16)).layout, (RankLayout{2, 3}));
  EXPECT_EQ(layout_of(recipe({{"ranks", "1"}}), host(16)).layout, (RankLayout{1, 16}));
  EXPECT_EQ(layout_of(recipe({{"threads", "6"}}), host(16)).layout, (RankLayout{1, 6})) << "threads alone: one rank";
  EXPECT_EQ(layout_of(recipe({{"threads", "6"}, {"ranks", "auto"}}), host(16)).layout, (RankLayout{1, 6}));
}

TEST_F(OwnRanks, OfLaunchBringTheirOwnMicroBatches) {
  EXPECT_EQ(launched_layout_of(recipe(), host(16)).layout.threads, 1) << "four for each rank";
  EXPECT_EQ(launched_layout_of(recipe({{"max_steps", "5"}}), host(16)).layout.threads, 1) << "however short";
  EXPECT_EQ(launched_layout_of(recipe({{"threads", "4"}}), host(16)).layout, (RankLayout{4, 4}));
  EXPECT_EQ(launched_layout_of(recipe(), host(2)).layout, (RankLayout{2, 1}));
  EXPECT_EQ(launched_layout_of(recipe({{"batch_size", "2"}, {"gradient_accumulation_steps", ""}}), host(16)).layout,
            (RankLayout{2, 8}));
}

TEST_F(OwnRanks, ReportErrorsAsTrainingDoes) {
  EXPECT_THROW(layout_of(recipe({{"datasets.0.path", folder / "nowhere.jsonl"}}), host(16)), UserError);
}

TEST_F(OwnRanks, ShareTheStepOfOne) {
  TrainSection train = recipe().recipe.train;
  EXPECT_EQ(train.micro_batches_per_step(8), 32);
  train.ranks_share_step = true;
  EXPECT_EQ(train.micro_batches_per_step(8), 4);
}

TEST_F(OwnRanks, ReceiveTheirLayout) {
  unsetenv("DML_LAYOUT");
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_FALSE(layout_from_parent());
  pass_layout_to_ranks({{4, 2}, "because"});
  ASSERT_TRUE(layout_from_parent());
  EXPECT_EQ(layout_from_parent()->layout.threads, 2);
  EXPECT_EQ(layout_from_parent()->why, "because");
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_FALSE(layout_from_parent()) << "no rank";
  unsetenv("DML_LAYOUT");
}

}  // namespace
}  // namespace dml
