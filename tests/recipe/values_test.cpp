#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "sample.h"

namespace dml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Numbers, AreReadHoweverYamlSpellsThem) {
  struct {
    const char* text;
    double value;
  } cases[] = {{"2e-4", 2e-4},  {"'2e-4'", 2e-4}, {"\"0.0002\"", 2e-4}, {"2E-04", 2e-4},
               {".0002", 2e-4}, {"+2.e-4", 2e-4}, {"0.000_2", 2e-4},    {"1", 1}};
  for (auto& c : cases)
    EXPECT_EQ(read_recipe("base_model: m\ndatasets: [{path: x}]\nlearning_rate: " + std::string(c.text), "r.yml")
                  .recipe.optim.learning_rate,
              c.value)
        << c.text;
  EXPECT_EQ(parsed("max_steps: 1_000\n").train.max_steps, 1000);
  EXPECT_EQ(parsed("max_steps: 1e3\n").train.max_steps, 1000);
  EXPECT_EQ(parsed("max_steps: '12'\n").train.max_steps, 12);
  EXPECT_EQ(parsed("lora_r: 4.0\n").adapter.lora_r, 4);
}

TEST(Booleans, AreReadAsYaml11HasThem) {
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "on", "ON", "'true'"})
    EXPECT_TRUE(parsed("sample_packing: " + std::string(yes)).data.sample_packing) << yes;
  for (const char* no : {"false", "False", "no", "NO", "off"})
    EXPECT_FALSE(parsed("shuffle_merged_datasets: " + std::string(no)).data.shuffle_merged_datasets) << no;
}

TEST(Names, OfOptimizersThatDmlDoesNotHaveNameTheNearest) {
  for (auto [name, nearest] : {std::pair{"grokadamw", "adamw"},
                               {"lomo", "adafactor"},
                               {"dion", "muon"},
                               {"q_galore_adamw8bit", "galore_adamw"}}) {
    const std::string said = problems(fmt::format("optimizer: {}\n", name));
    EXPECT_THAT(said, HasSubstr(fmt::format("'optimizer': dml does not have {}; the nearest is {}", name, nearest)));
  }
}

TEST(Pairs, MayHaveBlanksAroundTheirParts) {
  EXPECT_EQ(dump(parsed("optim_args: \"eps = 1e-8 , beta1=0.9\"\n").optim.optim_args), R"({"eps":1e-08,"beta1":0.9})");
  EXPECT_THAT(problems("optim_args: \" = 1\"\n"), HasSubstr("'optim_args' must be a table"));
}

// The recipe's sampling settings become generation_config.json, which has the same limits.
TEST(Numbers, OfSamplingHaveOneSetOfLimits) {
  EXPECT_EQ(problems("generation_repetition_penalty: 0.001\ngeneration_top_k: 1073741824\n"), "");
  EXPECT_THAT(problems("generation_repetition_penalty: 0.0001\n"), HasSubstr("at least 0.001 and at most 100"));
  EXPECT_THAT(problems("generation_top_k: 1073741825\n"), HasSubstr("at most 1073741824"));
}

TEST(EmptyValues, AreUnset) {
  auto recipe = parsed(
      "adapter:\nlora_r:\nlora_model_dir: ~\nresume_from_checkpoint: "
      "null\nspecial_tokens:\nwarmup_steps:\nwarmup_ratio: 0.1\nbf16:\nrl:\ntokens: []\nlora_dropout: NULL\n");
  EXPECT_EQ(recipe.adapter, AdapterSection{});
  EXPECT_EQ(recipe.model.special_tokens, SpecialTokens{});
  EXPECT_FALSE(recipe.optim.warmup_steps);
  EXPECT_EQ(recipe.optim.warmup_ratio, 0.1);
}

TEST(Enumerations, TakeBooleansWhereAxolotlDoes) {
  EXPECT_EQ(parsed("gradient_checkpointing: true").train.gradient_checkpointing, Recompute::layer);
  EXPECT_EQ(parsed("gradient_checkpointing: off").train.gradient_checkpointing, Recompute::none);
  EXPECT_EQ(parsed("gradient_checkpointing: mlp").train.gradient_checkpointing, Recompute::mlp);
  EXPECT_EQ(parsed("gradient_checkpointing: offload").train.gradient_checkpointing, Recompute::layer);
  EXPECT_EQ(parsed("eval_strategy: no").train.eval_strategy, IntervalStrategy::never);
  EXPECT_EQ(parsed("save_strategy: false").train.save_strategy, IntervalStrategy::never);
  EXPECT_EQ(
      parsed("peft_init_lora_weights: pissa\nadapter: lora\nlora_target_linear: true").adapter.peft_init_lora_weights,
      LoraInit::pissa);
  EXPECT_EQ(parsed("frozen_storage: bf16").model.frozen_storage, DType::bf16);
  EXPECT_EQ(parsed("frozen_storage: auto").model.frozen_storage, std::nullopt);
  EXPECT_EQ(parsed("comm_dtype: bf16").distribution.comm_dtype, DType::bf16);
  EXPECT_THAT(problems("frozen_storage: f16"), HasSubstr("auto, f32, bf16"));
  EXPECT_THAT(problems("comm_dtype: auto"), HasSubstr("one of f32, bf16"));
}

TEST(Targets, AreAListOrARegularExpression) {
  EXPECT_THAT(parsed("adapter: lora\nlora_target_modules: [q_proj, v_proj]").adapter.lora_target_modules.names,
              ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(parsed("adapter: lora\nlora_target_modules: 'layers\\.[0-3]\\..*_proj'").adapter.lora_target_modules.regex,
            "layers\\.[0-3]\\..*_proj");
  auto all = parsed("adapter: lora\nlora_target_modules: all-linear").adapter;
  EXPECT_TRUE(all.lora_target_linear);
  EXPECT_TRUE(all.lora_target_modules.empty());
}

TEST(Lists, MayBeOneValue) {
  EXPECT_THAT(
      parsed("peft_layers_to_transform: 3\nadapter: lora\nlora_target_linear: true").adapter.peft_layers_to_transform,
      ElementsAre(3));
  EXPECT_THAT(parsed("eot_tokens: <|im_end|>").templates.eot_tokens, testing::Optional(ElementsAre("<|im_end|>")));
  EXPECT_THAT(parsed("eot_tokens: []").templates.eot_tokens, testing::Optional(ElementsAre()));
}

TEST(DatasetEntries, HaveAllTheirKinds) {
  auto entries = read_recipe(R"(base_model: m
learning_rate: 1e-3
datasets:
  - path: a
    type: chat_template
    message_property_mappings: {role: from, content: value}
    roles: {user: [human, me], assistant: gpt}
    roles_to_train: []
    train_on_turns: last
    train_on_eos: all
    data_files: one.jsonl
  - path: b
    type:
      field_instruction: q
      format: "Q: {instruction} {input}\nA:"
  - path: c
    ds_type: jsonl
    type:
  - {path: d, type: completion, train_on_turns: 3, message_field_role: from, revision: x}
)",
                             "r.yml")
                     .recipe.data.datasets;
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].message_property_mappings.at("role"), "from");
  EXPECT_THAT(entries[0].roles->at("user"), ElementsAre("human", "me"));
  EXPECT_THAT(entries[0].roles->at("assistant"), ElementsAre("gpt"));
  EXPECT_TRUE(entries[0].roles_to_train.empty());
  EXPECT_EQ(entries[0].train_on_turns, 1);
  EXPECT_EQ(entries[0].train_on_eos, TrainOnEnd::all);
  EXPECT_THAT(entries[0].data_files, ElementsAre("one.jsonl"));
  ASSERT_TRUE(entries[1].type.format);
  EXPECT_EQ(entries[1].type.format->field_instruction, "q");
  EXPECT_EQ(entries[1].type.format->format, "Q: {instruction} {input}\nA:");
  EXPECT_EQ(entries[1].type.format->no_input_format, "{instruction} ");
  EXPECT_TRUE(entries[2].type.pre_tokenized());
  EXPECT_EQ(entries[2].ds_type, "json");
  EXPECT_EQ(entries[3].train_on_turns, 3);
  EXPECT_EQ(entries[3].message_property_mappings.at("role"), "from");
  EXPECT_EQ(entries[3].message_property_mappings.at("content"), "content");
}

TEST(FreeTables, KeepTheTypesOfYaml) {
  auto recipe = parsed(
      "model_config: {hidden_size: 64, rope_theta: 1e4, tie_word_embeddings: yes, model_type: llama, quoted: '1', "
      "list: [1, 2.5], none: }\nadded_tokens_overrides: {128010: <think>}\noptim_args: \"momentum=0.9, "
      "nesterov=true\"");
  EXPECT_EQ(
      dump(recipe.model.model_config),
      R"({"hidden_size":64,"rope_theta":10000.0,"tie_word_embeddings":true,"model_type":"llama","quoted":"1","list":[1,2.5],"none":null})");
  EXPECT_EQ(recipe.model.added_tokens_overrides.at(128010), "<think>");
  EXPECT_EQ(dump(recipe.optim.optim_args), R"({"momentum":0.9,"nesterov":true})");
}

TEST(Defaults, FollowFromOtherSettings) {
  auto file = read_recipe(kSample +
                              "sample_packing: true\nmicro_batch_size: 4\nadapter: qlora\nlora_target_linear: "
                              "true\nchat_template_jinja: t.jinja\n",
                          "r.yml");
  EXPECT_TRUE(file.recipe.data.eval_sample_packing);
  EXPECT_EQ(file.origins.at("eval_sample_packing"), "from sample_packing");
  EXPECT_EQ(file.recipe.train.eval_batch_size, 4);
  EXPECT_EQ(file.recipe.train.gradient_accumulation_steps, 1);
  EXPECT_TRUE(file.recipe.adapter.load_in_4bit);
  EXPECT_EQ(file.recipe.templates.chat_template, "jinja");
  EXPECT_EQ(file.origins.at("sample_packing"), "r.yml:6:17");
  EXPECT_EQ(file.origins.at("datasets.0.type"), "r.yml:4:11");
  EXPECT_EQ(file.origins.at("seed"), "default");
}

TEST(Defaults, OfPretrainingAreWholeDocumentsPacked) {
  const std::string text = "base_model: m\nlearning_rate: 1e-4\npretraining_dataset: corpus.txt\n";
  auto file = read_recipe(text, "r.yml");
  EXPECT_TRUE(file.recipe.data.sample_packing);
  EXPECT_TRUE(file.recipe.data.eval_sample_packing);
  EXPECT_EQ(file.recipe.data.pretraining_dataset[0].type.name, "pretrain");
  EXPECT_FALSE(read_recipe(text + "sample_packing: false\n", "r.yml").recipe.data.sample_packing);
  EXPECT_TRUE(read_recipe(resolved_yaml(file), "resolved.yml").recipe == file.recipe);
}

TEST(MicroBatches, ComeFromEitherKey) {
  EXPECT_EQ(parsed("micro_batch_size: 2\ngradient_accumulation_steps: 3").train.micro_batches_per_step(4), 12);
  EXPECT_EQ(parsed("micro_batch_size: 2\nbatch_size: 16").train.micro_batches_per_step(4), 8);
}

TEST(Paths, ExpandTheHomeDirectoryOnly) {
  std::string home = std::getenv("HOME") ? std::getenv("HOME") : "~";
  EXPECT_EQ(parsed("output_dir: ~/out").train.output_dir, home + "/out");
  EXPECT_EQ(parsed("output_dir: $HOME/~/out").train.output_dir, "$HOME/~/out");
}

TEST(AxolotlsSpellings, AreMappedOrGatheredInOneNotice) {
  auto file = read_recipe(kSample +
                              "optimizer: ao_adamw_8bit\nbf16: auto\ntf32: false\nflash_attention: "
                              "true\ncomet_project_name: p\nwandb_name:\n"
                              "deepspeed: deepspeed_configs/zero2.json\nplugins: "
                              "[axolotl.integrations.liger.LigerPlugin]\nevaluation_strategy: no\n",
                          "r.yml");
  EXPECT_EQ(file.recipe.optim.optimizer, "adamw_8bit");
  EXPECT_EQ(file.recipe.distribution.distribution, "zero2");
  EXPECT_EQ(file.recipe.train.eval_strategy, IntervalStrategy::never);
  EXPECT_EQ(file.recipe.train.bf16, Bf16::automatic);
  EXPECT_THAT(file.notices, ElementsAre(HasSubstr("distribution: zero2"),
                                        "plugins: no effect on CPUs: axolotl.integrations.liger.LigerPlugin",
                                        HasSubstr("ao_adamw_8bit"),
                                        "no effect on CPUs: flash_attention (line 9) ('dml help KEY' gives the reason)",
                                        "not done: comet_project_name (line 10): dml does not log to Comet; metrics "
                                        "are in metrics.jsonl and report.html of output_dir"));
}

TEST(AxolotlsSpellings, ChoosePrecisionAndHalfFloatsAreRefused) {
  EXPECT_EQ(read_recipe(kSample + "bf16: true\nfp16: false\n", "r.yml").recipe.train.bf16, Bf16::on);
  EXPECT_EQ(read_recipe(kSample + "bfloat16: true\n", "r.yml").recipe.train.bf16, Bf16::on);
  EXPECT_EQ(read_recipe(kSample + "fp16:\n", "r.yml").recipe.train.bf16, Bf16::off);
  EXPECT_THAT([] { read_recipe(kSample + "fp16: true\n", "r.yml"); },
              testing::ThrowsMessage<UserError>(
                  HasSubstr("r.yml:6:1: 'fp16' is not supported: dml computes in float32 or bfloat16")));
}

// As examples of Axolotl have them: `bfloat16: true` beside `bf16: true`.
TEST(AxolotlsSpellings, MayStandBesideTheirKeysWithTheSameValue) {
  EXPECT_EQ(parsed("bfloat16: true\nbf16: yes").train.bf16, Bf16::on);
  EXPECT_EQ(parsed("noisy_embedding_alpha: 5\nneftune_noise_alpha: 5.0").train.neftune_noise_alpha, 5);
  EXPECT_THAT(problems("bfloat16: true\nbf16: false"), HasSubstr("'bf16' is the same setting as 'bfloat16'"));
  EXPECT_THAT(problems("bfloat16: true\nbf16: nonsense"), HasSubstr("'bf16' is the same setting as 'bfloat16'"));
}

TEST(AxolotlsSpellings, OfItsSchemaAndPlugInsAreKnown) {
  auto file = read_recipe(kSample +
                              "fused_attn_kernel: true\nflex_attn_compile_kwargs: {dynamic: false}\ntiled_mlp: true\n"
                              "tiled_mlp_num_shards: 4\nuse_scattermoe: true\nliger_rope: true\n"
                              "cut_cross_entropy: true\nuse_trackio: true\npush_dataset_to_hub: me/rows\n",
                          "r.yml");
  EXPECT_THAT(file.notices,
              ElementsAre(AllOf(HasSubstr("no effect on CPUs: fused_attn_kernel (line 6), flex_attn_compile_kwargs"),
                                HasSubstr("tiled_mlp (line 8), tiled_mlp_num_shards"), HasSubstr("use_scattermoe"),
                                HasSubstr("cut_cross_entropy")),
                          HasSubstr("not done: use_trackio (line 13): dml does not log to Trackio"),
                          HasSubstr("not done: push_dataset_to_hub (line 14): prepared data stay on this machine")));
  EXPECT_THAT(problems("spectrum_top_fraction: 0.5"), HasSubstr("list them in unfrozen_parameters"));
}

// Axolotl's default of these keys is true, so false asks for something.
TEST(AxolotlsSpellings, OfKeysThatAreOnByDefaultHaveANoticeForFalse) {
  auto file = read_recipe(kSample +
                              "pretrain_multipack_attn: false\ntokenizer_use_fast: no\ndataloader_drop_last: yes\n"
                              "dataloader_num_workers: 2\n",
                          "r.yml");
  EXPECT_THAT(file.notices,
              testing::UnorderedElementsAre(
                  HasSubstr("no effect on CPUs: dataloader_num_workers (line 9)"),
                  HasSubstr("not done: dataloader_drop_last (line 8): every example of an epoch is trained"),
                  "not done: pretrain_multipack_attn (line 6): packed documents never attend to each other",
                  HasSubstr("not done: tokenizer_use_fast (line 7): the files of the tokenizer")));
  file = read_recipe(kSample +
                         "pretrain_multipack_attn: true\ntokenizer_use_fast: yes\ntokenizer_legacy:\n"
                         "dataloader_drop_last: false\n",
                     "r.yml");
  EXPECT_THAT(file.notices, ElementsAre());
}

TEST(AxolotlsSpellings, AskForLogsOfOtherPrograms) {
  EXPECT_TRUE(parsed("wandb_project: p").log.wandb());
  EXPECT_FALSE(parsed("wandb_project: p\nuse_wandb: false").log.wandb());
  EXPECT_FALSE(parsed("wandb_project: p\nwandb_mode: disabled").log.wandb());
  EXPECT_FALSE(parsed("wandb_project:\nwandb_name: x").log.wandb());
  EXPECT_TRUE(parsed("use_wandb: true").log.wandb());
  EXPECT_TRUE(parsed("mlflow_experiment_name: x").log.mlflow()) << "as in Axolotl";
  EXPECT_FALSE(parsed("mlflow_experiment_name: x\nuse_mlflow: false").log.mlflow());
  EXPECT_FALSE(parsed("mlflow_experiment_name:").log.mlflow());
  EXPECT_TRUE(parsed("use_mlflow: true").log.mlflow());
  auto file = read_recipe(kSample + "use_wandb: true\nwandb_mode: online\n", "r.yml");
  EXPECT_THAT(file.notices, ElementsAre(HasSubstr("dml sends nothing: upload the run with `wandb sync`")));
  EXPECT_THAT(problems("use_mlflow: true\nmlflow_tracking_uri: http://localhost:5000"),
              HasSubstr("'mlflow_tracking_uri' is 'http://localhost:5000'; dml writes MLflow's file store"));
  EXPECT_EQ(problems("use_mlflow: true\nmlflow_tracking_uri: file:///tmp/mlruns"), "");
}

// Off is a value: the same as if the key were not there, but for evaluations and checkpoints, which there are none of.
TEST(OffValues, AreAccepted) {
  const std::string val = "val_set_size: 0.1\n";
  EXPECT_EQ(parsed(val + "evals_per_epoch: 0").train.eval_strategy, IntervalStrategy::never);
  EXPECT_EQ(parsed(val + "eval_steps: 0").train.eval_strategy, IntervalStrategy::never);
  EXPECT_EQ(parsed("saves_per_epoch: 0").train.save_strategy, IntervalStrategy::never);
  EXPECT_EQ(parsed("save_steps: 0").train.save_strategy, IntervalStrategy::never);
  auto file = read_recipe(kSample + "save_steps: 0\n", "r.yml");
  EXPECT_EQ(file.origins.at("save_strategy"), "from save_steps");
  EXPECT_TRUE(read_recipe(resolved_yaml(file), "resolved.yml").recipe == file.recipe);
  // The setting beside it counts.
  EXPECT_EQ(parsed("save_steps: 0\nsaves_per_epoch: 2").train.save_strategy, IntervalStrategy::automatic);
  EXPECT_EQ(parsed(val + "eval_steps: 0\neval_strategy: epoch").train.eval_strategy, IntervalStrategy::epoch);
  const Recipe plain = parsed("");
  for (const char* line : {"early_stopping_patience: 0", "cosine_constant_lr_ratio: 0", "cosine_constant_lr_ratio: 0.0",
                           "max_steps: -1", "max_steps: 0", "max_time: 0", "loss_watchdog_threshold: 0", "threads: 0"})
    EXPECT_TRUE(parsed(line) == plain) << line;
  for (const char* line : {"generation_top_k: 0", "generation_top_k: -1"})
    EXPECT_EQ(parsed(line).generation.generation_top_k, 0) << line;  // all tokens, whatever the base says
  EXPECT_THAT(problems("max_steps: -2"), HasSubstr("'max_steps' must be an integer of at least 1, or -1 or 0 (off)"));
  EXPECT_THAT(problems("eval_steps: -1"), HasSubstr("'eval_steps' must be a number above 0, or 0 (off)"));
  EXPECT_EQ(parsed("", {"--max_steps", "-1"}).train.max_steps, std::nullopt);
}

TEST(AxolotlsSpellings, OfShardingMeanAStrategy) {
  for (auto [lines, name] : {std::pair{"fsdp: [full_shard, auto_wrap]\n", "zero3"},
                             {"fsdp: hybrid_shard auto_wrap\n", "hybrid"},
                             {"fsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD_ZERO2}\n", "hybrid_zero2"},
                             {"fsdp_config: {sharding_strategy: 5}\n", "hybrid_zero2"},
                             {"dp_shard_size: 2\nfsdp_config: {reshard_after_forward: false}\n", "hybrid_zero2"},
                             {"dp_shard_size: 2\nfsdp_config: {reshard_after_forward: true}\n", "hybrid"},
                             {"fsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}\n", "zero2"},
                             {"fsdp_version: 2\nfsdp_config: {reshard_after_forward: false}\n", "zero2"},
                             {"fsdp_config: {sharding_strategy: NO_SHARD}\n", "ddp"},
                             {"dp_shard_size: 4\ndp_replicate_size: 2\n", "hybrid"},
                             {"deepspeed: {zero_optimization: {stage: 1}}\n", "zero1"}}) {
    auto file = read_recipe(kSample + std::string(lines), "r.yml");
    EXPECT_EQ(file.recipe.distribution.distribution, name) << lines;
    EXPECT_THAT(file.notices, testing::Contains(HasSubstr(std::string("distribution: ") + name))) << lines;
  }
  EXPECT_EQ(parsed("distribution: hybrid\ndp_shard_size: 4").distribution.dp_shard_size, 4);
}

TEST(Flags, MeanOneValueOfAnotherKey) {
  set_choices("objective", {{.spelling = "nll", .value = "nll"},
                            {.spelling = "dft", .value = "dft", .flags = {"use_dynamic_finetuning", "use_dft"}}});
  EXPECT_EQ(parsed("use_dynamic_finetuning: yes").train.objective, "dft");
  EXPECT_EQ(parsed("use_dft: true").train.objective, "dft");
  EXPECT_EQ(parsed("", {"--use-dynamic-finetuning"}).train.objective, "dft");
  for (const char* line : {"use_dynamic_finetuning: false", "use_dynamic_finetuning:"})
    EXPECT_EQ(parsed(line).train.objective, std::nullopt) << line;
  EXPECT_EQ(parsed("objective: dft\nuse_dynamic_finetuning: false").train.objective, "dft");
  EXPECT_THAT(problems("use_dynamic_finetuning: 3"),
              HasSubstr("r.yml:6:25: 'use_dynamic_finetuning' must be true or false, is '3'"));
  EXPECT_THAT(problems("use_dynamic_finetunin: true"), HasSubstr("did you mean 'use_dynamic_finetuning'?"));
  EXPECT_THAT(problems("objective: nll\nuse_dynamic_finetuning: true"),
              HasSubstr("r.yml:7:25: 'use_dynamic_finetuning' means objective: dft, but 'objective' is set, too"));
  EXPECT_THAT(problems("objective: dfd"), HasSubstr("dft"));
  EXPECT_THAT(help_for("use_dynamic_finetuning"), HasSubstr("true: objective: dft"));
  EXPECT_THAT(help_for("use_dft"), HasSubstr("true: objective: dft"));
  EXPECT_EQ(json_schema()["properties"]["use_dynamic_finetuning"]["type"][0], "boolean");
  set_choices("objective", {});
}

// The class of transformers that reads config.json.
TEST(InertKeys, TheClassOfTheConfigIsThatOfTheModelDirectory) {
  EXPECT_THAT(read_recipe(kSample + "cls_model_config: Gemma2Config\n", "r.yml").notices,
              ElementsAre(HasSubstr("no effect on CPUs: cls_model_config (line 6)")));
}

// Other arguments of bitsandbytes do not change weights.
TEST(UnsupportedKeys, OfBitsandbytesAreRefusedWhereWeightsWouldDiffer) {
  EXPECT_EQ(problems("bnb_config_kwargs: {bnb_4bit_quant_type: nf4, bnb_4bit_use_double_quant: true, "
                     "bnb_4bit_compute_dtype: bfloat16}\n"),
            "");
  EXPECT_THAT(problems("bnb_config_kwargs: {bnb_4bit_quant_type: fp4}\n"), HasSubstr("must be nf4, is 'fp4'"));
  EXPECT_THAT(problems("bnb_config_kwargs: {bnb_4bit_use_double_quant: false}\n"), HasSubstr("is not supported"));
}

TEST(InertKeys, ExpertsAreQuantizedWithTheBase) {
  const std::string lora = "lora_target_linear: true\nquantize_moe_experts: true\n";
  for (const char* base :
       {"adapter: lora\nload_in_4bit: true\n", "adapter: lora\nload_in_8bit: true\n", "adapter: qlora\n"})
    EXPECT_EQ(problems(base + lora), "") << base;
  EXPECT_THAT(problems("adapter: lora\n" + lora), HasSubstr("set load_in_4bit or load_in_8bit"));
}

// Axolotl's recipes of gpt-oss have these keys; the files say themselves that they are MXFP4.
TEST(InertKeys, TheClassOfTheQuantizationIsThatOfTheModelDirectory) {
  const std::string kwargs = "model_quantization_config_kwargs: {dequantize: true}\n";
  EXPECT_EQ(problems("model_quantization_config: Mxfp4Config\n" + kwargs), "");
  EXPECT_THAT(problems("model_quantization_config: GPTQConfig\n" + kwargs),
              HasSubstr("r.yml:6:28: 'model_quantization_config' must be Mxfp4Config, is 'GPTQConfig'"));
  EXPECT_THAT(problems("model_quantization_config: {bnb: {weight_dtype: int8}}"), HasSubstr("is a table"));
}

TEST(UnsupportedKeys, NameTheAlternativeAndAreNeverUnknown) {
  for (const char* line : {"center_rewards: true", "processor_type: AutoProcessor", "gptq: true",
                           "rope_scaling: {type: linear}", "unsloth_lora_qkv: true", "tensor_parallel_size: 2",
                           "use_pose: yes", "plugins: [my.Plugin]", "save_safetensors: false", "deepspeed: {x: 1}"}) {
    EXPECT_THAT(problems(line), testing::ContainsRegex("^r.yml:6:[0-9]+: .*(not supported|not read).*[:;]")) << line;
    EXPECT_THAT(problems(line), testing::Not(HasSubstr("unknown"))) << line;
  }
  for (const char* line : {"rl:", "gptq: false", "tensor_parallel_size: 1", "unsloth_lora_qkv: false"})
    EXPECT_EQ(problems(line), "") << line;
}

Json random_json(std::mt19937& random, int depth) {
  static const std::vector<std::string> texts = {"",
                                                 "a",
                                                 "ü – 漢字 🙂",
                                                 "it's",
                                                 "say \"x\"",
                                                 "back\\slash",
                                                 "two\nlines\n",
                                                 "tab\t",
                                                 "# no comment",
                                                 "a: b",
                                                 "yes",
                                                 "12",
                                                 "null",
                                                 "~",
                                                 "- x",
                                                 "'",
                                                 "\"",
                                                 "<<",
                                                 "&a *a",
                                                 "{% x %}",
                                                 " lead",
                                                 "trail ",
                                                 "\x01\x7f",
                                                 "0x10",
                                                 "010",
                                                 "1e5"};
  switch (random() % (depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random()) - 2'000'000'000;
    case 3:
      return static_cast<double>(random()) / 7e5;
    case 4:
      return texts[random() % texts.size()];
    case 5: {
      Json list = Json::array();
      for (auto n = random() % 5; n > 0; --n) list.push_back(random_json(random, depth - 1));
      return list;
    }
    default: {
      Json map = Json::object();
      for (auto n = random() % 5; n > 0; --n)
        map["k" + texts[random() % texts.size()]] = random_json(random, depth - 1);
      return map;
    }
  }
}

TEST(AnyJson, IsReadUnchangedAndSurvivesTheResolvedRecipe) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    Json value = Json::object();
    value["x"] = random_json(random, 4);
    auto file = read_recipe(
        kSample + "# ümlaut\ntokens: ['ü', \"ß\"]\nmodel_config: " + (i % 2 ? value.dump() : value.dump(2)) + "\n",
        "r.yml");
    ASSERT_EQ(file.recipe.model.model_config, value) << value.dump();
    ASSERT_EQ(read_recipe(resolved_yaml(file, i % 3 == 0), "again.yml").recipe.model.model_config, value)
        << resolved_yaml(file);
  }
}

/// Whatever the bytes are: a recipe or a UserError.
TEST(DamagedText, FailsCleanly) {
  const std::string good = kSample +
                           "x: &a [1, 'two', \"three\"]\ny: *a\nspecial_tokens: {pad_token: "
                           "<pad>}\nchat_template_jinja: |\n  {% a %}\n   b\ntokens: >-\n  a\n  b\n"
                           "test_datasets:\n  - &t {path: x, roles: {user: [a]}}\n  - <<: *t\n    split: y\n? k\n: v\n";
  static const std::string_view alphabet = "\"'&*!|>{}[]:,#-?%@`~ \n\t\r<=\\a0\xc3\xff";
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (auto n = 1 + random() % 6; n > 0; --n) {
      auto at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        default:
          text.erase(at, 1 + random() % 20);
          break;
      }
    }
    problems_of(text);
  }
}

}  // namespace
}  // namespace dml
