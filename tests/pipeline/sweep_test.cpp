#include "pipeline/sweep.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "pipeline/sweep_record.h"
#include "temporary_folder.h"

namespace dml {
namespace {

// The combinations of a grid without problems.
std::vector<SweepCombination> grid_of(const std::string& text) {
  Problems problems;
  auto grid = sweep_grid(text, "g.yml", problems);
  problems.raise();
  return grid;
}

TEST(SweepGrid, MultipliesListsAndPairs) {
  const auto grid = grid_of("learning_rate: [1, 2]\n_:\n  - {lora_r: 4, lora_alpha: 8}\n  - {lora_r: 8}\nseed: [7]\n");
  ASSERT_EQ(grid.size(), 4u);
  EXPECT_EQ(dump(grid[0].settings), R"({"learning_rate":1,"lora_r":4,"lora_alpha":8,"seed":7})");
  EXPECT_EQ(dump(grid[1].settings), R"({"learning_rate":1,"lora_r":8,"seed":7})");
  EXPECT_EQ(dump(grid[3].settings), R"({"learning_rate":2,"lora_r":8,"seed":7})");
  EXPECT_EQ(grid[3].places.at("learning_rate"), "g.yml:1:20");
  EXPECT_EQ(grid[3].places.at("lora_r"), "g.yml:4:14");
}

TEST(SweepGrid, NamesThePlacesOfAllErrors) {
  try {
    grid_of("lerning_rate: [1]\nseed: 1\noutput_dir: [a]\n_: [{lora_rr: 4}, 5]\n");
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "g.yml:1:1: unknown key 'lerning_rate'; did you mean 'learning_rate'?\n"
                 "g.yml:2:1: 'seed' must be a list of values, is 1\n"
                 "g.yml:3:1: 'output_dir' cannot be in a grid: every run gets its own folder inside --output\n"
                 "g.yml:4:6: unknown key 'lora_rr'; did you mean 'lora_r'?\n"
                 "g.yml:4:19: an entry of '_' must be a table of keys, is 5");
  }
}

TEST(SweepGrid, KeepsWhatHasNoProblem) {
  Problems problems;
  const auto grid = sweep_grid("lerning_rate: [1, 2]\nlora_r: []\n_: [{lora_rr: 4, seed: 1}, 5]\n", "g.yml", problems);
  EXPECT_EQ(problems.all().size(), 4u);
  ASSERT_EQ(grid.size(), 2u);
  EXPECT_EQ(dump(grid[0].settings), R"({"seed":1})");
  EXPECT_EQ(dump(grid[1].settings), "{}");
}

TEST(SweepGrid, SetsAKeyOnce) {
  try {
    grid_of("seed: [1]\n_: [{lora_r: 4, seed: 2}, {seed: 3}]\n");
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "g.yml:2:23: 'seed' is also set at g.yml:1:8\n"
                 "g.yml:2:34: 'seed' is also set at g.yml:1:8");
  }
}

TEST(SweepGrid, SetsASettingUnderOneOfItsNames) {
  try {
    grid_of("label_smoothing: [0.1, 0.2]\nlabel_smoothing_factor: [0.3]\n_: [{rl_beta: 1, dpo_beta: 2}]\n");
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "g.yml:2:26: 'label_smoothing_factor' is also set at g.yml:1:19, as 'label_smoothing'\n"
                 "g.yml:3:15: 'rl_beta' is also set at g.yml:3:28, as 'dpo_beta'");
  }
}

TEST(SweepGrid, TakesAValueOnce) {
  try {
    grid_of("learning_rate: [0.001, 1e-3, 2]\nseed: [1, 2, 1]\n");
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "g.yml:1:24: 'learning_rate' has the value 0.001 twice; the first is at g.yml:1:17\n"
                 "g.yml:2:14: 'seed' has the value 1 twice; the first is at g.yml:2:8");
  }
  EXPECT_EQ(grid_of("_: [{seed: 1}, {lora_r: 4}, {seed: 1}]\n").size(), 2u) << "equal tables are one entry";
}

TEST(SweepGrid, ThatIsInvalidIsRejected) {
  for (const char* text : {"[1, 2]", "learning_rate: 1", "learning_rate: []", "_: [1]", "{}"})
    EXPECT_THROW(grid_of(text), UserError) << text;
}

TEST(SweepGrid, MayHaveACombinationWithoutSettings) {
  const auto grid = grid_of("_: [{}, {max_steps: 2}]\n");
  ASSERT_EQ(grid.size(), 2u);
  EXPECT_TRUE(grid[0].settings.empty());
}

TEST(SweepRecords, KnowWhatIsFinishedAndWhatIsReplaced) {
  const testing_tools::TemporaryFolder folder;
  const Json seed{{"seed", 1}}, other{{"seed", 2}};
  SweepRecords(folder.path()).put({"run-01", seed, Json::object(), "a", 0});
  SweepRecords records(folder.path());
  records.put({"run-02", other, Json::object(), "a", 4});
  const SweepRecords read(folder.path());
  ASSERT_NE(read.find(seed, "a"), nullptr);
  EXPECT_EQ(read.find(seed, "a")->name, "run-01");
  EXPECT_EQ(read.find(seed, "b"), nullptr);
  ASSERT_NE(read.find(other, "a"), nullptr);
  EXPECT_NE(read.find(other, "a")->exit, 0) << "it failed";
  EXPECT_FALSE(read.replaces_another("run-02", other, "a"));
  EXPECT_TRUE(read.replaces_another("run-02", other, "b"));
  EXPECT_FALSE(read.replaces_another("run-03", other, "b"));
}

TEST(SweepTable, HasARowForEveryRun) {
  SweepRun good{"run-01", {{"lora_r", 4}}, 0, 1.25, 1.5, 1.375}, bad{"run-02", {{"lora_r", 8}}, 4},
      open{"run-03", {{"seed", 1}}};
  EXPECT_EQ(sweep_table({good, bad, open}),
            "| run | lora_r | seed | loss | eval loss | lowest | exit |\n|---|---|---|--:|--:|--:|--:|\n"
            "| run-01 | 4 |  | 1.2500 | 1.5000 | 1.3750 | 0 |\n| run-02 | 8 |  |  |  |  | 4 |\n| run-03 |  | 1 |  |  | "
            " |  |\n");
}

TEST(SweepTable, HasTheRewardOfRunsThatHaveOne) {
  SweepRun run{"run-01", {{"seed", 4}}, 0, 0.0};
  run.reward = 1.25;
  EXPECT_EQ(sweep_table({run}),
            "| run | seed | reward | loss | eval loss | lowest | exit |\n|---|---|--:|--:|--:|--:|--:|\n"
            "| run-01 | 4 | 1.2500 | 0.0000 |  |  | 0 |\n");
}

}  // namespace
}  // namespace dml
