// What the recipe of a checkpoint leaves out, and which of its keys may differ in a run that resumes from it.
#include "pipeline/resume_rules.h"

#include <gtest/gtest.h>

#include "assembly/recipe_names.h"
#include "pipeline/recipe_changes.h"

namespace dml {
namespace {

RecipeFile with_keys(const std::string& keys) {
  name_choices();
  return read_recipe(
      "base_model: base\nlearning_rate: 1e-3\nadapter: lora\nlora_target_linear: true\n"
      "datasets: [{path: rows.jsonl, type: alpaca}]\n" +
          keys,
      "recipe.yml");
}

std::vector<std::string> changed_keys(const std::string& before, const std::string& after) {
  std::vector<std::string> out;
  for (const RecipeChange& c :
       recipe_changes(recorded_recipe(with_keys(before), 1), recorded_recipe(with_keys(after), 1)))
    out.push_back(c.key);
  return out;
}

TEST(ResumeRules, SettingsThatChangeNoResultAreNotRecorded) {
  EXPECT_EQ(recorded_recipe(with_keys("output_dir: other\nthreads: 3\nsave_steps: 7\nlogging_steps: 2\n"
                                      "distribution: zero1\nuse_wandb: true\nquantized_cache_path: cache\n"),
                            1),
            recorded_recipe(with_keys(""), 1));
  // The ranks divide the examples of a step among them.
  EXPECT_EQ(recorded_recipe(with_keys("gradient_accumulation_steps: 4\n"), 1),
            recorded_recipe(with_keys("gradient_accumulation_steps: 2\n"), 2));
  EXPECT_EQ(changed_keys("", "comm_dtype: bf16\ngradient_tree: false\nlora_r: 4\n"),
            (std::vector<std::string>{"lora_r", "gradient_tree", "comm_dtype"}));
}

TEST(ResumeRules, SomeRecordedSettingsMayDiffer) {
  const std::vector<std::string> free =
      changed_keys("", "gradient_checkpointing: true\ndataset_prepared_path: other\n");
  EXPECT_EQ(free.size(), 2u);
  const Recipe plain = with_keys("").recipe;
  for (const std::string& key : free) EXPECT_EQ(on_resume(key, plain), OnResume::free) << key;
  for (const std::string& key : changed_keys("", "num_epochs: 3\nmax_steps: 9\n"))
    EXPECT_EQ(on_resume(key, plain), OnResume::extends) << key;
  EXPECT_EQ(on_resume("learning_rate", plain), OnResume::fixed);
}

// Backward reads rounded values where they were saved, and exact ones where they are recomputed.
TEST(ResumeRules, GradientCheckpointingMayNotDifferWhereSavedActivationsAreRounded) {
  const auto with = [](const std::string& keys) { return on_resume("gradient_checkpointing", with_keys(keys).recipe); };
  EXPECT_EQ(with("activation_storage: bf16\n"), OnResume::fixed);
  EXPECT_EQ(with("load_in_8bit: true\n"), OnResume::fixed);
  EXPECT_EQ(with("load_in_8bit: true\nactivation_storage: f32\n"), OnResume::free);
}

TEST(ResumeRules, TheSettingThatMakesRatesDependOnTheNumberOfStepsIsNamed) {
  const auto change = [](const std::string& keys) {
    return first_rate_change(with_keys(keys).recipe.optim, 15, 30, 15).value();
  };
  const RateChange ratio = change("lr_scheduler: constant\nwarmup_ratio: 0.2\n");
  EXPECT_EQ(ratio.step, 0);
  EXPECT_FLOAT_EQ(ratio.before, 1e-3 / 3);
  EXPECT_FLOAT_EQ(ratio.after, 1e-3 / 6);
  EXPECT_EQ(ratio.cause, "warmup_ratio: 0.2");
  EXPECT_EQ(ratio.instead, "warmup_steps: 3");
  const auto unset = first_rate_change(with_keys("lr_scheduler: constant_with_warmup\n").recipe.optim, 100, 200, 100);
  EXPECT_EQ(unset.value().cause, "the default warmup, a fraction of the steps,");
  EXPECT_EQ(unset->instead, "warmup_steps: 3");
  const RateChange cosine = change("lr_scheduler: cosine\nwarmup_steps: 2\n");
  EXPECT_EQ(cosine.step, 3);
  EXPECT_EQ(cosine.cause, "lr_scheduler: cosine");
  EXPECT_EQ(cosine.instead, "lr_scheduler: constant");
  EXPECT_EQ(change("lr_scheduler: cosine\nwarmup_ratio: 0.2\n").instead, "lr_scheduler: constant and warmup_steps: 3");
  EXPECT_FALSE(first_rate_change(with_keys("lr_scheduler: constant\nwarmup_steps: 3\n").recipe.optim, 15, 30, 15));
}

}  // namespace
}  // namespace dml
