// run.json, differences between recipes, and whether a run improved its model.
#include "pipeline/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/files.h"
#include "pipeline/recipe_changes.h"
#include "pipeline/run_outcome.h"
#include "temporary_folder.h"

namespace dml {
namespace {

RunRecord a_record() {
  RunRecord r;
  r.version = "1";
  r.directory = "/somewhere";
  r.recipe = "my recipe.yml";
  r.output_dir = "out";
  r.overrides = {"--num_epochs=30", "--lora_target_modules=[q_proj, v_proj]", "--resume_from_checkpoint="};
  r.ranks = 2;
  return r;
}

TEST(RunRecord, ReadsBackWhatWasWritten) {
  testing_tools::TemporaryFolder folder;
  RunRecord r = a_record();
  r.launch = {"-n", "2"};
  write_run_record(folder.path(), r);
  EXPECT_EQ(read_run_record(folder.path()), r);
  r.launch.clear();
  r.own_ranks = true;
  r.steps = 664;
  write_run_record(folder.path(), r);
  EXPECT_EQ(read_run_record(folder.path()), r);
}

TEST(RunRecord, IsRejectedIfItIsMissing) {
  testing_tools::TemporaryFolder folder;
  EXPECT_THROW(read_run_record(folder.path()), UserError);
  for (const char* text : {"[]", "{}", R"({"format": 2, "recipe": "r"})", R"({"format": 1})",
                           R"({"format": 1, "recipe": "r", "overrides": [1]})", "{"}) {
    write_file(folder / "run.json", text);
    EXPECT_THROW(read_run_record(folder.path()), UserError) << text;
  }
}

TEST(RunRecord, GivesTheWholeCommand) {
  RunRecord r = a_record();
  EXPECT_EQ(train_command(r, "auto", "dml"),
            "dml train 'my recipe.yml' --num_epochs 30 --lora_target_modules '[q_proj, v_proj]' "
            "--resume_from_checkpoint= --resume auto");
  r.overrides.clear();
  r.launch = {"-n", "2"};
  EXPECT_EQ(train_command(r, "", "dml"), "dml launch -n 2 train 'my recipe.yml'");
  r.launch.clear();
  r.mpirun = {"mpirun", "-np", "2"};
  EXPECT_EQ(train_command(r, "auto", "dml"), "mpirun -np 2 dml train 'my recipe.yml' --resume auto");
}

TEST(RecipeChanges, AreNamedWithBothValues) {
  const std::string before = "# model\nlora_r: 8\nnum_epochs: 2\ngone: x\ndatasets:\n  - path: a\n    type: b\n";
  EXPECT_EQ(
      changes_text(recipe_changes(before, "lora_r: 8\nnum_epochs: 3\ndatasets:\n  - path: a\n    type: b\nmore: 1\n")),
      "num_epochs 2 → 3, more unset → 1, gone x → unset");
  EXPECT_TRUE(recipe_changes(before, before).empty());
  auto nested = recipe_changes(before, "lora_r: 8\nnum_epochs: 2\ngone: x\ndatasets:\n  - path: a\n    type: c\n");
  ASSERT_EQ(nested.size(), 1u);
  EXPECT_EQ(nested[0].key, "datasets");
}

StepMetrics step_of(std::int64_t step, double loss) {
  StepMetrics m;
  m.step = step;
  m.loss = loss;
  return m;
}

TEST(RunOutcome, ComparesTheFirstEvaluationWithThatOfTheResult) {
  const std::vector<EvalMetrics> evals{{0, 0, {{"accuracy", 0.5}}},
                                       {0, 0, {{kEvalLoss, 2.5}}},
                                       {10, 1, {{kEvalLoss, 2.0}}},
                                       {20, 2, {{kEvalLoss, 2.75}}}};
  EXPECT_TRUE(outcome_of({}, evals, 20).worse());
  EXPECT_EQ(outcome_of({}, evals, 20).text(), "validation loss 2.5000 → 2.7500");
  EXPECT_FALSE(outcome_of({}, evals, 10).worse());
}

TEST(RunOutcome, WithoutEvaluationsComparesTheFirstTenthOfTheStepsWithTheLast) {
  std::vector<StepMetrics> steps;
  for (int s = 0; s < 20; ++s) steps.push_back(step_of(s + 1, s < 2 ? 1 + s : s < 18 ? 0.5 : 4));
  RunOutcome outcome = outcome_of(steps, {}, 20);
  EXPECT_EQ(outcome.text(), "training loss 1.5000 → 4.0000");
  EXPECT_TRUE(outcome.worse());
  steps[1].loss = NAN;  // was skipped
  EXPECT_EQ(outcome_of(steps, {}, 20).text(), "training loss 1.0000 → 4.0000");
  steps.resize(9);
  EXPECT_EQ(outcome_of(steps, {}, 9).text(), "") << "too few steps to say";
  EXPECT_FALSE(outcome_of(steps, {}, 9).worse());
}

// A run of 28 steps on 37 rows whose loss on the same rows fell: the rows of its last steps are harder.
TEST(RunOutcome, StepsOnOtherRowsAreNotWorse) {
  const std::vector<std::pair<double, std::int64_t>> measured{
      {1.119, 185}, {1.196, 152}, {2.57, 72},   {0.743, 195}, {1.462, 140}, {0.982, 161}, {1.041, 116},
      {1.53, 142},  {1.588, 134}, {1.192, 177}, {0.949, 170}, {0.898, 229}, {1.033, 194}, {0.638, 189},
      {0.699, 240}, {1.889, 90},  {1.274, 140}, {1.143, 200}, {1.644, 123}, {1.173, 136}, {0.757, 214},
      {1.527, 110}, {0.841, 202}, {1.199, 187}, {0.791, 199}, {1.087, 182}, {1.295, 158}, {1.562, 75}};
  std::vector<StepMetrics> steps;
  for (const auto& [loss, tokens] : measured) {
    steps.push_back(step_of(std::ssize(steps) + 1, loss));
    steps.back().trained_tokens = tokens;
  }
  EXPECT_EQ(outcome_of(steps, {}, 28).text(), "training loss 1.1575 → 1.4285");
  EXPECT_FALSE(outcome_of(steps, {}, 28).worse());
  // The same noise around a loss that rises, or that jumps after some steps.
  std::vector<StepMetrics> rising = steps, jumping = steps;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    rising[s].loss += 0.15 * static_cast<double>(s);
    jumping[s].loss += s < 20 ? 0 : 5;
  }
  EXPECT_TRUE(outcome_of(rising, {}, 28).worse());
  EXPECT_TRUE(outcome_of(jumping, {}, 28).worse());
  steps.resize(10);
  for (std::size_t s = 5; s < 10; ++s) steps[s].loss *= 6;
  EXPECT_TRUE(outcome_of(steps, {}, 10).worse()) << "also of the fewest steps";
  for (StepMetrics& m : steps) m.loss = NAN;
  EXPECT_TRUE(outcome_of(steps, {}, 10).worse());
}

TEST(RunOutcome, ThatStaysTheSameIsNotWorse) {
  std::vector<StepMetrics> steps;
  for (int s = 0; s < 12; ++s) {
    steps.push_back(step_of(s + 1, 0));
    steps.back().values = {{"reward", 1}};
  }
  EXPECT_EQ(outcome_of(steps, {}, 12).text(), "reward 1.0000 → 1.0000");
  EXPECT_FALSE(outcome_of(steps, {}, 12).worse());
}

TEST(RunOutcome, OfRewardsMoreIsBetter) {
  std::vector<StepMetrics> steps;
  for (int s = 0; s < 40; ++s) {
    steps.push_back(step_of(s + 1, 0.01 * s));
    if (s % 2 == 0) steps.back().values = {{"reward", s < 4 ? 0.25 : 0.5}};  // the others share what was sampled
  }
  EXPECT_EQ(outcome_of(steps, {}, 40).text(), "reward 0.2500 → 0.5000");
  EXPECT_FALSE(outcome_of(steps, {}, 40).worse());
  for (StepMetrics& m : steps)
    for (NamedValue& v : m.values) v.value = -v.value;
  EXPECT_TRUE(outcome_of(steps, {}, 40).worse());
  EXPECT_EQ(last_reward(steps), -0.5);
}

TEST(RunOutcome, OfFewRewardsSaysNothingOfTheLoss) {
  std::vector<StepMetrics> steps;
  for (int s = 0; s < 12; ++s) {
    steps.push_back(step_of(s + 1, 0.001 * s));
    if (s < 6) steps.back().values = {{"reward", 0.1 * s}};
  }
  EXPECT_EQ(outcome_of(steps, {}, 12).text(), "");
  EXPECT_FALSE(outcome_of(steps, {}, 12).worse());
  EXPECT_EQ(last_reward(steps), 0.5);
}

}  // namespace
}  // namespace dml
