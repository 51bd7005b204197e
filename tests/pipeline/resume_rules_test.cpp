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
  for (const std::string& key : free) EXPECT_EQ(on_resume(key), OnResume::free) << key;
  for (const std::string& key : changed_keys("", "num_epochs: 3\nmax_steps: 9\n"))
    EXPECT_EQ(on_resume(key), OnResume::extends) << key;
  EXPECT_EQ(on_resume("learning_rate"), OnResume::fixed);
}

}  // namespace
}  // namespace dml
