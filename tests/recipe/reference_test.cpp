#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "core/files.h"
#include "optim/optimizer.h"
#include "recipe/fields.h"
#include "sample.h"

namespace dml {
namespace {

using testing::HasSubstr;

TEST(ReferencePage, IsCurrent) {
  const std::string path = DML_SOURCE_DIR "/recipes/REFERENCE.md";
  if (std::getenv("DML_UPDATE")) write_file(path, reference_markdown());
  ASSERT_TRUE(file_exists(path));
  EXPECT_TRUE(read_file(path) == reference_markdown())
      << "run test_recipe with DML_UPDATE=1 and commit recipes/REFERENCE.md";
}

TEST(Keys, AreUniqueAndDescribed) {
  auto names = recipe::top_level_names();
  std::set<std::string> unique(names.begin(), names.end());
  EXPECT_EQ(unique.size(), names.size());
  for (const auto& name : names) EXPECT_EQ(recipe::other_keys().find_unmapped(name), nullptr) << name;
  for (auto& section : recipe::sections())
    for (const auto& field : section.table.fields()) {
      EXPECT_TRUE(field.help.ends_with(".")) << field.key;
      EXPECT_FALSE(field.rules.example.empty()) << field.key;
    }
}

TEST(Examples, OfEveryKeyAreValid) {
  for (auto& section : recipe::sections())
    for (const auto& field : section.table.fields()) {
      auto file = field.key + ": " + field.rules.example + "\n";
      auto said = problems_of(file);
      EXPECT_THAT(said, testing::Not(HasSubstr("'" + field.key + "' must be"))) << said;
      EXPECT_THAT(said, testing::Not(HasSubstr("invalid YAML"))) << said;
    }
}

TEST(Help, TellsTypeDefaultAndExample) {
  auto help = help_for("lora_r");
  for (const char* part : {"Rank of the adapter matrices.", "an integer of at least 1", "default  8", "lora_r: 16"})
    EXPECT_THAT(help, HasSubstr(part));
  EXPECT_THAT(help_for("datasets.path"), HasSubstr("required"));
  EXPECT_THAT(help_for("path"), HasSubstr("see also dml help scores.path, dml help evals.path\n"));
  EXPECT_THAT(help_for("roles_to_train"), HasSubstr("datasets.roles_to_train"));
  EXPECT_THAT(help_for("special_tokens.pad_token"), HasSubstr("special_tokens.pad_token"));
  EXPECT_THAT(help_for("overrides_of_model_config"), HasSubstr("model_config\n"));
  EXPECT_THAT(help_for("optimizer"), HasSubstr("adamw_torch = adamw"));
  EXPECT_THAT(help_for("flash_attention"), HasSubstr("without effect"));
  EXPECT_THAT(help_for("wandb_watch"), HasSubstr("Accepted, but not done: dml uploads to no tracker"));
  EXPECT_THAT(help_for("tensor_parallel_size"), HasSubstr("Not supported"));
  EXPECT_THAT(help_for("skip_prepare_dataset"), HasSubstr("dml prepares the data of every run"));
  EXPECT_THAT(help_for("do_causal_lm_eval"), HasSubstr("'evals'"));
  EXPECT_THAT(help_for("dataloader_drop_last"), HasSubstr("every example of an epoch is trained"))
      << "not dataloader_*";
  EXPECT_THAT(help_for("message_field_role"), HasSubstr("datasets.message_field_role\n  Accepted, without effect"));
  EXPECT_THAT(help_for("conversation"), HasSubstr("datasets.conversation\n  Not supported"));
  EXPECT_THAT(help_for("preprocess_shards"), HasSubstr("rows are prepared as a stream"));
  EXPECT_THAT(help_for("temperature"), HasSubstr("see also dml help trl.temperature"));
  EXPECT_THAT(help_for("use_vllm"), HasSubstr("trl.use_vllm\n  Accepted, without effect"));
  EXPECT_THAT(help_for("trl.use_vllm"), HasSubstr("Accepted, without effect"));
  EXPECT_THROW(
      try { help_for("lora_aplha"); } catch (const UserError& e) {
        EXPECT_THAT(e.what(), HasSubstr("did you mean 'lora_alpha'?"));
        throw;
      },
      UserError);
}

TEST(Schema, CoversEveryKey) {
  auto schema = json_schema();
  for (const auto& key : keys()) EXPECT_TRUE(schema["properties"].contains(key)) << key;
  EXPECT_TRUE(schema["properties"].contains("flash_attention"));
  EXPECT_TRUE(schema["patternProperties"].contains("^comet_"));
  EXPECT_EQ(schema["properties"]["lora_r"]["anyOf"][0]["minimum"], 1.0);
  EXPECT_EQ(schema["properties"]["datasets"]["anyOf"][0]["items"]["properties"]["path"]["type"][0], "string");
}

// Every recipe that dml accepts fits.
TEST(Schema, AcceptsOtherFormsOfValues) {
  Json properties = json_schema()["properties"];
  EXPECT_EQ(dump(properties["optim_args"]["anyOf"]), R"([{"type":"object"},{"type":"string"},{"type":"null"}])");
  EXPECT_EQ(properties["tokens"]["anyOf"][0]["items"], properties["tokens"]["anyOf"][1]) << "a list of one";
  EXPECT_EQ(dump(properties["wandb_project"]["anyOf"][0]["type"]), R"(["string","number","boolean"])");
  EXPECT_EQ(dump(properties["learning_rate"]["anyOf"][0]["type"]), R"(["number","string"])");
  EXPECT_EQ(properties["pretraining_dataset"]["anyOf"].back()["type"], "string");
}

// A refused key may stay in a recipe with a value that asks for nothing; so may keys that are mapped to others.
TEST(Schema, AcceptsKeysThatAskForNothing) {
  Json properties = json_schema()["properties"];
  EXPECT_EQ(dump(properties["fp16"]["enum"]), R"([null,"",[],{},false])");
  EXPECT_EQ(dump(properties["sequence_parallel_degree"]["enum"]), R"([null,"",[],{},1])");
  EXPECT_EQ(problems("sequence_parallel_degree: 1"), "");
  EXPECT_TRUE(properties.contains("rpo_alpha"));
  EXPECT_FALSE(properties["rpo_alpha"].contains("enum"));
  EXPECT_TRUE(properties["trl"]["anyOf"][0]["properties"].contains("use_vllm"));
  EXPECT_TRUE(properties["datasets"]["anyOf"][0]["items"]["properties"].contains("message_field_role"));
}

TEST(Schema, LeavesTheNamesOfRowsToPlugIns) {
  Json schema = json_schema();
  EXPECT_EQ(dump(schema["if"]), R"({"required":["plugins"]})");
  for (const char* key : {"optimizer", "lr_scheduler", "distribution", "objective"}) {
    Json names = schema["properties"][key]["anyOf"];
    EXPECT_EQ(names[1]["type"][0], "string") << key;
    EXPECT_EQ(schema["else"]["properties"][key]["anyOf"][0], names[0]) << key;
    EXPECT_FALSE(names[0]["enum"].empty()) << key;
  }
}

TEST(ResolvedRecipe, ReadsBackToTheSame) {
  const std::string lines =
      "adapter: lora\nlora_target_modules: 'a.*[b]|\"c\"'\nlora_rank_pattern: {'layers.1.*': 8, 'layers.0.*': "
      "4}\nlora_alpha: 0.1\n"
      "special_tokens: {pad_token: <pad>, additional_special_tokens: ['yes', '12', \"tab\\there\"]}\n"
      "added_tokens_overrides: {5: '<x>'}\nmodel_config: {rope_scaling: {rope_type: linear, factor: 2.0}, deep: [{a: "
      "[1, null]}, 'no']}\n"
      "test_datasets:\n  - {path: t, type: {format: \"{instruction}\\n: # x\", field_output: out}}\n  - {path: u, "
      "type: , roles: {user: []}}\n"
      "eot_tokens: []\nchat_template_jinja: \"{% if a %}\\n  'x'\\n{% endif %}\\n\"\ndefault_system_message: ' lead'\n"
      "lr_groups: [{name: a, modules: [b, c], lr: 1e-5}]\noptim_args: {x: 1e-7}\nwarmup_ratio: 0.03\n"
      "eval_strategy: no\ngradient_checkpointing: mlp\ndistribution: zero1\ngeneration_top_p: 0.3333333333333333\n"
      "peft_init_lora_weights: false\noutput_dir: \"a: b # c\"\nresume_from_checkpoint: 'null'\nlora_model_dir: ' "
      "lead'\n";
  auto file = read_recipe(kSample + lines, "r.yml");
  EXPECT_EQ(file.recipe.adapter.lora_rank_pattern.front().first, "layers.1.*") << "the first that matches counts";
  for (bool origins : {false, true}) {
    auto yaml = resolved_yaml(file, origins);
    auto again = read_recipe(yaml, "resolved.yml");
    EXPECT_TRUE(again.recipe == file.recipe) << yaml;
    EXPECT_EQ(resolved_yaml(again), resolved_yaml(file));
  }
  EXPECT_THAT(resolved_yaml(file, true), HasSubstr("distribution: zero1                              # r.yml:"));
}

TEST(Names, OfAnotherProgramBecomeKnown) {
  EXPECT_THAT(problems("optimizer: my_rule"), HasSubstr("'optimizer' must be one of"));
  optimizers().add({"my_rule", "none at all", optimizers().at("sgd").make});
  name_choices();
  EXPECT_EQ(parsed("optimizer: my_rule").optim.optimizer, "my_rule");
}

}  // namespace
}  // namespace dml
