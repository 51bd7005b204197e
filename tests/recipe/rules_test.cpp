#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample.h"

namespace dml {
namespace {

using testing::HasSubstr;

TEST(Rules, NameBothPlaces) {
  const std::string lora = "adapter: lora\nlora_target_linear: true\n", val = "val_set_size: 0.1\n";
  const std::pair<std::string, const char*> cases[] = {
      {"warmup_steps: 3\nseed: 1\nwarmup_ratio: 0.1",
       "r.yml:8:15: set either 'warmup_ratio' or 'warmup_steps' (line 6), not both"},
      {val + "eval_steps: 3\nevals_per_epoch: 1", "not both"},
      {"save_steps: 3\nsaves_per_epoch: 1", "not both"},
      {"batch_size: 8\ngradient_accumulation_steps: 2", "not both"},
      {"batch_size: 8\nmicro_batch_size: 3", "must be a multiple of 'micro_batch_size' (line 7), which is 3"},
      {val + "test_datasets: [{path: x}]", "not both"},
      {"pretraining_dataset: [{path: x}]", "not both"},
      {"val_set_size: 1.5", "a whole number of examples"},
      {"adapter: lora", "r.yml:6:10: 'adapter' needs target modules"},
      {"adapter: qlora\nlora_target_linear: true\nload_in_4bit: false",
       "'load_in_4bit: false' contradicts 'adapter' (line 6)"},
      {"adapter: qlora\nlora_target_linear: true\nload_in_8bit: true", "'load_in_8bit' contradicts 'adapter' (line 6)"},
      {"load_in_8bit: true", "'load_in_8bit' needs an adapter"},
      {lora + "load_in_4bit: true\nload_in_8bit: true", "not both"},
      {"adapter: lora\nlora_target_modules: 'a(b'",
       "r.yml:7:22: 'lora_target_modules' is not a regular expression: 'a(b': character 4: missing closing "
       "parenthesis"},
      {"unfrozen_parameters: ['a[4:2]']", "r.yml:6:22: 'unfrozen_parameters': 'a[4:2]' selects no rows"},
      {"unfrozen_parameters: ['a[bc']", "'a[bc' is not a regular expression: character 5: missing terminating ]"},
      {lora + "reinit_weights: true",
       "r.yml:6:10: 'adapter' needs a base that is stored: with 'reinit_weights' (line 8), the adapter's base has "
       "random weights, which are saved nowhere; remove reinit_weights, or train all weights, or set relora: true"},
      {lora + "peft_layers_pattern: layers", "needs peft_layers_to_transform"},
      {"peft_layers_to_transform: [1]\nunfrozen_parameters: [a]", "not both"},
      {lora + "unfrozen_parameters: [a]", "'unfrozen_parameters' does not work with 'adapter' (line 6)"},
      {"adapter: lora\nlora_target_modules: '.*q_proj'\npeft_layers_to_transform: [1]", "needs a list of names"},
      {lora + "peft_trainable_token_indices: all", "a list of token ids, or a table"},
      {lora + "peft_init_lora_weights: corda", "'peft_init_lora_weights' must be"},
      {lora + "load_in_8bit: true\npeft_init_lora_weights: loftq", "quantizes the base itself"},
      {lora + "relora: true", "'relora' needs jagged_restart_steps"},
      {"relora: true\njagged_restart_steps: 20", "'relora' needs an adapter"},
      {"adapter: qlora\nlora_target_linear: true\nrelora: true\njagged_restart_steps: 20", "would lose what is merged"},
      {lora + "relora: true\njagged_restart_steps: 20\npeft_init_lora_weights: pissa", "must be true or gaussian"},
      {lora + "relora: true\njagged_restart_steps: 20\noptimizer: adamw_8bit", "needs relora_prune_method: reset"},
      {lora + "relora: true\njagged_restart_steps: 20\nema_decay: 0.9", "so 'ema_decay' has nothing to average"},
      {lora + "relora: true\njagged_restart_steps: 20\nprepack_weights: true",
       "makes packed copies of the base outdated"},
      {lora + "relora_steps: 20", "Axolotl has renamed it"},
      {"gradient_checkpointing_layers: 5", "'gradient_checkpointing_layers' needs gradient_checkpointing: true or mlp"},
      {"jagged_restart_warmup_steps: 5", "'jagged_restart_warmup_steps' needs jagged_restart_steps"},
      {"jagged_restart_steps: 20\nlr_scheduler: one_cycle", "does not work with 'lr_scheduler' (line 7): one_cycle"},
      {"jagged_restart_steps: 5", "is too short for 'jagged_restart_warmup_steps' of 10"},
      {lora + "loraplus_lr_ratio: 16\nlr_groups: [{name: a, modules: [b], lr: 1}]", "not both"},
      {"eval_steps: 3", "'eval_steps': there is no validation data"},
      {"eval_strategy: epoch", "'eval_strategy': there is no validation data"},
      {"generate_samples: true", "'generate_samples': there is no validation data"},
      {"early_stopping_patience: 3", "there is no validation data"},
      {val + "eval_strategy: epoch\neval_steps: 3", "'eval_steps' contradicts 'eval_strategy' (line 7)"},
      {"save_strategy: steps", "'save_strategy: steps' needs save_steps"},
      {val + "early_stopping_patience: 2\neval_steps: 4\nsave_steps: 6",
       "'save_steps' must be a multiple of 'eval_steps' (line 8)"},
      {"save_steps: 2.5", "must be a whole number, or a fraction below 1"},
      {"chat_template: jinja", "'chat_template: jinja' needs chat_template_jinja"},
      {"chat_template: chatml\nchat_template_jinja: x", "not both"},
      {"cosine_constant_lr_ratio: 0.5", "needs cosine_min_lr_ratio"},
      {"min_sample_len: 600", "'min_sample_len' is above 'sequence_len'"},
      {"dataset_shard_num: 2\ndataset_shard_idx: 2", "must be below"},
  };
  for (const auto& [lines, expected] : cases) EXPECT_THAT(problems(lines), HasSubstr(expected)) << lines;
}

// An adapter is of no use without its base. The result of ReLoRA is a whole model.
TEST(Rules, AdaptersNeedAStoredBase) {
  const std::string scratch = "model_config: {hidden_size: 8}\ndatasets: [{path: x}]\nlearning_rate: 1e-3\n",
                    lora = "adapter: lora\nlora_target_linear: true\n";
  EXPECT_EQ(problems_of(scratch), "");
  EXPECT_THAT(problems_of(scratch + lora),
              HasSubstr("r.yml:4:10: 'adapter' needs a base that is stored: without 'base_model', the adapter's base "
                        "has random weights, which are saved nowhere; set base_model"));
  EXPECT_EQ(problems_of(scratch + lora + "relora: true\njagged_restart_steps: 20\n"), "");
  EXPECT_NO_THROW(read_recipe(scratch + lora, "r.yml", {}, RecipeUse::measure)) << "dml bench needs no weights";
}

// What PEFT's patterns may hold: flags, look-behind, named groups.
TEST(Rules, AcceptTheRegularExpressionsOfPython) {
  for (const char* pattern : {"(?i).*Q_PROJ", ".*(?<!cross_)attn.*", "(?P<half>self_attn|mlp).*_proj", ".*\\Z"}) {
    const std::string lines = fmt::format("adapter: lora\nlora_target_modules: '{}'", pattern);
    EXPECT_EQ(problems(lines), "");
    EXPECT_EQ(parsed(lines).adapter.lora_target_modules.regex, pattern);
  }
}

TEST(Rules, OfShardingNameTheStrategy) {
  EXPECT_THAT(
      problems_of("distribution: zero2\ndp_shard_size: 2\n"),
      HasSubstr("'dp_shard_size' needs distribution: hybrid or hybrid_zero2; 'distribution' (line 1) is 'zero2'"));
  EXPECT_THAT(problems_of("distribution: ddp\nshard_frozen_weights: true\n"),
              HasSubstr("'shard_frozen_weights' needs distribution: zero3 or hybrid"));
}

TEST(Rules, NameWhatIsMissing) {
  auto said = problems_of("seed: 1\n");
  for (const char* key : {"base_model", "datasets", "learning_rate"})
    EXPECT_THAT(said, HasSubstr("r.yml:1:1: '" + std::string(key) + "' is missing"));
  EXPECT_EQ(problems_of("model_config: {hidden_size: 8}\ndatasets: [{path: x}]\nlearning_rate: 1e-3"), "");
  EXPECT_THAT(problems_of("base_model: [a]\ndatasets: x.jsonl\nlearning_rate: 1e-3"), Not(HasSubstr("is missing")))
      << "they are there, with other values";
}

TEST(Rules, OfPlateausNeedEvaluations) {
  const std::string plateau = "lr_scheduler: reduce_lr_on_plateau\n";
  EXPECT_THAT(problems_of(plateau), HasSubstr("needs evaluations; set val_set_size"));
  EXPECT_THAT(problems_of(plateau + "val_set_size: 8\neval_strategy: no\n"),
              HasSubstr("needs evaluations, and 'eval_strategy' (line 3) is 'no'"));
  EXPECT_THAT(problems_of(plateau + "val_set_size: 8\n"), Not(HasSubstr("needs evaluations")));
}

TEST(Warnings, NameSettingsWithoutEffectAndMissingFiles) {
  auto file = read_recipe(
      kSample + "lora_r: 16\nlora_alpha: 16\nevals_per_epoch: 4\nsample_packing: yes\ngroup_by_length: yes\n", "r.yml");
  EXPECT_THAT(file.warnings, testing::UnorderedElementsAre(
                                 HasSubstr("r.yml:6:9: 'lora_r' has no effect without an adapter"),
                                 HasSubstr("'evals_per_epoch' has no effect"),
                                 HasSubstr("'group_by_length' has no effect with 'sample_packing' (line 9)")));
  std::vector<std::string> missing;
  for (const Problem& problem : file.missing) missing.push_back(problem.line());
  EXPECT_THAT(missing, testing::ElementsAre(
                           HasSubstr("r.yml:1:13: 'base_model': no such file or directory: 'models/tiny'"),
                           HasSubstr("r.yml:3:11: 'datasets.0.path': no such file or directory: 'rows.jsonl'")));
}

TEST(Warnings, OfSchedulesNameTheKeysThatTheyDoNotRead) {
  const std::string min = "cosine_min_lr_ratio: 0.1\n", tail = "cosine_constant_lr_ratio: 0.5\n",
                    square = "lr_quadratic_warmup: true\n";
  const auto has = [](const char* key, const std::string& scheduler) {
    return HasSubstr(fmt::format("'{}' has no effect with 'lr_scheduler' (line 6): {}", key, scheduler));
  };
  const auto warnings = [](const std::string& scheduler, const std::string& lines) {
    return read_recipe(kSample + "lr_scheduler: " + scheduler + "\n" + lines, "r.yml").warnings;
  };
  EXPECT_THAT(warnings("cosine", min + tail), testing::IsEmpty());
  EXPECT_THAT(warnings("cosine", square), testing::IsEmpty());
  EXPECT_THAT(warnings("linear", "lr_quadratic_warmup: false\n"), testing::IsEmpty());
  EXPECT_THAT(warnings("cosine", square + min + tail),
              testing::UnorderedElementsAre(HasSubstr("'cosine_min_lr_ratio' has no effect with 'lr_quadratic_warmup'"),
                                            HasSubstr("'cosine_constant_lr_ratio' has no effect with 'lr_quad")));
  EXPECT_THAT(warnings("rex", min + tail), testing::ElementsAre(has("cosine_constant_lr_ratio", "rex")));
  EXPECT_THAT(warnings("cosine_with_min_lr", min + tail + square),
              testing::ElementsAre(has("lr_quadratic_warmup", "cosine_with_min_lr")));
  for (const char* other : {"linear", "cosine_with_restarts", "warmup_stable_decay"})
    EXPECT_THAT(warnings(other, square + min + tail),
                testing::UnorderedElementsAre(has("lr_quadratic_warmup", other), has("cosine_min_lr_ratio", other),
                                              has("cosine_constant_lr_ratio", other)));
}

TEST(Warnings, NameTheSettingThatAnotherOneNeeds) {
  const std::string lora = "adapter: lora\nlora_target_linear: true\n";
  struct {
    std::string line, needs, enough;
  } cases[] = {
      {lora + "loraplus_lr_embedding: 1e-5", "loraplus_lr_ratio", "loraplus_lr_ratio: 16"},
      {lora + "relora_prune_ratio: 0.5", "relora", "relora: true\njagged_restart_steps: 20"},
      {lora + "quantized_cache_path: q", "load_in_4bit or load_in_8bit", "load_in_8bit: true"},
      {lora + "loftq_iter: 2", "peft_init_lora_weights: loftq", "peft_init_lora_weights: loftq"},
      {lora + "embedding_lr: 1e-5", "lora_modules_to_save or peft_trainable_token_indices",
       "lora_modules_to_save: [embed_tokens]"},
      {lora + "embedding_lr_scale: 0.5", "lora_modules_to_save or peft_trainable_token_indices",
       "peft_trainable_token_indices: [3]"},
      {"chat_template: chatml", "a dataset of type: chat_template", "test_datasets: [{path: t, type: chat_template}]"},
      {"chat_template_kwargs: {a: 1}", "a dataset of type: chat_template", "rl: dpo"},
      {"loss_watchdog_patience: 5", "loss_watchdog_threshold", "loss_watchdog_threshold: 9"},
      {"num_generation_samples: 1", "generate_samples", "generate_samples: true\nval_set_size: 0.1"},
      {"mlflow_tracking_uri: m", "use_mlflow or mlflow_experiment_name", "mlflow_experiment_name: x"},
      {"wandb_name: n", "use_wandb or wandb_project", "use_wandb: false"},
      {"hub_strategy: end", "hub_model_id", "hub_model_id: org/name"},
      {"hub_revision: v2", "hub_model_id", "hub_model_id: org/name"},
      {"center_rewards_coefficient: 0.1", "reward_model", "reward_model: true"},
  };
  for (const auto& [line, needs, enough] : cases) {
    const std::string said = "has no effect without " + needs;
    EXPECT_THAT(read_recipe(kSample + line, "r.yml").warnings, testing::ElementsAre(testing::EndsWith(said))) << line;
    EXPECT_THAT(read_recipe(kSample + line + "\n" + enough, "r.yml").warnings,
                testing::Not(testing::Contains(HasSubstr(said))))
        << line;
  }
  // A resolved recipe sets every key.
  for (const char* line : {"", "lr_scheduler: linear"})
    EXPECT_THAT(read_recipe(resolved_yaml(read_recipe(kSample + line, "r.yml")), "resolved.yml").warnings,
                testing::ElementsAre());
}

// A problem that is found later carries the place of the key that it is about, or of the table around it.
TEST(Places, OfKeysAreKnownToWhatIsFoundLater) {
  auto file = read_recipe(kSample + "adapter: qlora\nlora_target_linear: true\n", "r.yml", {{"lora_r", "8"}});
  auto line = [&](const char* key) { return file.located({key, "", "wrong"}).line(); };
  EXPECT_EQ(line("datasets.0.type"), "r.yml:4:11: wrong");
  EXPECT_EQ(line("datasets.0.type.field_output"), "r.yml:4:11: wrong");
  EXPECT_EQ(line("lora_r"), "command line: wrong");
  EXPECT_EQ(line("load_in_4bit"), "r.yml:6:10: wrong");  // from adapter
  EXPECT_EQ(line("lr_scheduler"), "r.yml: wrong");
  EXPECT_EQ(line(""), "wrong");
  EXPECT_EQ(file.located({"lora_r", "rows.jsonl:3", "wrong"}).line(), "rows.jsonl:3: wrong");
}

TEST(OutputDirectory, MayNotBeTheModels) {
  EXPECT_THAT(problems_of("base_model: .\noutput_dir: ./\nlearning_rate: 1\ndatasets: [{path: x}]"),
              HasSubstr("the model would be overwritten"));
}

}  // namespace
}  // namespace dml
