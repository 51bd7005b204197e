// A recipe: every setting of a job, typed, checked and with its default filled in.
//
// Members carry the names of the recipe's keys (Axolotl's spellings); what a key means, its range and its help are
// written once, in fields_*.cpp. Each part gets only the section that it needs; no folder below `pipeline` sees
// the whole Recipe, and no code looks a setting up by its name.
// std::optional is used where "unset" means something else than any value; the comment says what.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace dml {

enum class AdapterKind { none, lora, qlora };
enum class LoraInit { kaiming, gaussian, pissa, olora, loftq, random };  // random: A and B both (PEFT's `false`)
enum class ExcessLength { drop, truncate, raise, split_turns };
enum class BadRow { error, skip };
enum class LearnEnd { none, turn, last, all };  // turns whose end tokens are trained: none, trained ones, the last, all
enum class Recompute { none, layer, mlp };      // gradient_checkpointing: false, true, mlp
enum class Storage { automatic, f32, bf16 };    // automatic: as the files have it
enum class Bf16 { off, on, automatic };          // automatic: where the processor has instructions for it
enum class Bf16Weights { off, kahan, stochastic };  // trained weights are bfloat16 between steps; how what rounding loses is kept
enum class Cadence { automatic, never, steps, epoch, best };

enum class RowKind { text, pairs, labelled, prompts, steps };  // of data: follows from rl, reward_model, process_reward_model
enum class ModelTask { causal_lm, reward, process_reward };  // what the head gives: text, a number for a text, classes of steps
enum class Rl { none, dpo, ipo, orpo, simpo, cpo, kto, grpo, gdpo };

// ---- model

struct SpecialTokens {
  std::optional<std::string> bos_token, eos_token, pad_token, unk_token;
  std::vector<std::string> additional_special_tokens;
  bool operator==(const SpecialTokens&) const = default;
};

struct ModelSection {
  ModelTask task = ModelTask::causal_lm;         // no key of its own: follows from reward_model, process_reward_model
  std::string base_model;                        // model directory; "" only with model_config
  std::optional<std::string> revision_of_model;  // of base_model as a name of the Hub
  std::optional<std::string> base_model_config;  // other source of config.json
  std::optional<std::string> tokenizer_config;   // other source of the tokenizer; unset: base_model
  bool tokenizer_metaspace = false;              // Metaspace instead of tokenizer.json's normalizer, as transformers 5
  Json model_config = Json::object();            // over config.json; without base_model: all of it
  bool reinit_weights = false;                   // from scratch: random weights, architecture from the config
  Storage frozen_storage = Storage::automatic;   // of base weights that are not trained
  SpecialTokens special_tokens;
  std::vector<std::string> tokens;                             // ordinary tokens to add
  bool resize_token_embeddings_to_32x = false;                 // rows of the embedding: a multiple of 32
  bool mean_resizing_embeddings = false;                       // new rows are the mean of the old ones; else random
  std::map<std::int64_t, std::string> added_tokens_overrides;  // id of a reserved token → its new spelling
  bool operator==(const ModelSection&) const = default;
};

// ---- adapter

/// PEFT's rule: a list names modules (whole or by suffix), a text is a regular expression over the whole path.
struct TargetModules {
  std::vector<std::string> names;
  std::string regex;
  bool empty() const { return names.empty() && regex.empty(); }
  bool operator==(const TargetModules&) const = default;
};

/// PEFT's trainable_token_indices: of the input embedding, or by the name of the embedding or head.
struct TokenIndices {
  std::vector<std::int64_t> tokens;
  std::map<std::string, std::vector<std::int64_t>> by_module;
  bool empty() const { return tokens.empty() && by_module.empty(); }
  bool operator==(const TokenIndices&) const = default;
};

struct AdapterSection {
  AdapterKind adapter = AdapterKind::none;  // none: full fine-tuning
  std::int64_t lora_r = 8;
  double lora_alpha = 16;
  double lora_dropout = 0;
  TargetModules lora_target_modules;
  bool lora_target_linear = false;                // every linear layer but the output head
  std::vector<std::string> lora_target_parameters;  // of experts
  std::vector<std::string> lora_modules_to_save;  // trained in full and saved with the adapter
  TokenIndices peft_trainable_token_indices;      // rows of the embedding that are trained
  bool peft_ensure_weight_tying = false;          // one trained copy for the embedding and the head of a tied model
  std::optional<std::string> lora_model_dir;      // start from / infer with / merge this adapter
  bool lora_fan_in_fan_out = false;
  bool peft_use_dora = false;
  bool peft_use_rslora = false;
  LoraInit peft_init_lora_weights = LoraInit::kaiming;
  std::int64_t loftq_iter = 1;  // of LoftQ: how often base and adapter are fitted to each other
  std::map<std::string, std::int64_t> lora_rank_pattern;  // regex over module paths → r
  std::map<std::string, double> lora_alpha_pattern;       // regex over module paths → alpha
  std::vector<std::int64_t> peft_layers_to_transform;     // empty: all
  std::vector<std::string> peft_layers_pattern;
  std::optional<double> loraplus_lr_ratio;  // learning rate of B ÷ learning rate of A
  double loraplus_lr_embedding = 1e-6;
  bool load_in_4bit = false;                                         // nf4 base
  bool load_in_8bit = false;                                         // int8 base
  std::string quantised_cache_path = "last_run_prepared/quantised";  // unset in the recipe: in dataset_prepared_path
  std::vector<std::string> unfrozen_parameters;  // full fine-tuning: regexes, "name[a:b]" for rows; empty: all
  bool relora = false;                           // merge and begin anew every jagged_restart_steps
  double relora_prune_ratio = 0.9;
  std::string relora_prune_method = "magnitude";  // random, reset

  /// Whether a run's result is a whole model, not an adapter.
  bool makes_model() const { return adapter == AdapterKind::none || relora; }
  bool operator==(const AdapterSection&) const = default;
};

// ---- data

/// `type:` as a table: the user's own instruction format. Placeholders {instruction}, {input}, {system}; {{ and }} are
/// braces.
struct PromptFormat {
  std::string system_prompt;
  std::string system_format = "{system}";
  std::string field_system = "system";
  std::string field_instruction = "instruction";
  std::string field_input = "input";
  std::string field_output = "output";
  std::string format = "{instruction} {input} ";
  std::string no_input_format = "{instruction} ";
  // of preferences
  std::string field_prompt = "prompt", field_chosen = "chosen", field_rejected = "rejected";
  std::string field_completion = "completion", field_label = "label";
  std::string prompt_format = "{prompt}", chosen_format = "{chosen}", rejected_format = "{rejected}";
  std::string completion_format = "{completion}";
  bool operator==(const PromptFormat&) const = default;
};

/// `type:` of a dataset: a name for the prompt registry, a table, or nothing (rows are already tokens).
struct DatasetType {
  std::string name;
  std::optional<PromptFormat> format;
  bool pre_tokenised() const { return name.empty() && !format; }
  bool operator==(const DatasetType&) const = default;
};

struct DatasetEntry {
  std::string path;  // file, directory or glob
  DatasetType type;
  std::optional<std::string> name;      // subset inside a directory
  std::string split = "train";          // "train", "train[:20%]", …
  std::vector<std::string> data_files;  // under path
  std::optional<std::string> revision;  // of path as a name of the Hub
  std::optional<std::string> ds_type;   // json, csv, tsv, text, document; unset: by extension
  std::optional<std::int64_t> shards;   // keep 1/shards of the rows …
  std::int64_t shards_idx = 0;          // … this one
  double weight = 1;                    // 0.5: half of the rows; 2: every row twice
  std::optional<std::int64_t> max_rows;
  std::int64_t skip = 0;  // leading rows left out
  // conversations
  std::optional<std::string> chat_template;        // unset: the recipe's, else the tokenizer's
  std::optional<std::string> chat_template_jinja;  // text or file
  std::string field_messages = "messages";
  std::map<std::string, std::string> message_property_mappings = {{"content", "content"}, {"role", "role"}};
  std::map<std::string, std::vector<std::string>> message_columns;  // role → columns; empty: rows hold messages
  std::string field_tools = "tools";
  std::string field_system = "system";
  std::optional<std::string> field_thinking;
  std::string template_thinking_key = "reasoning_content";
  std::optional<std::map<std::string, std::vector<std::string>>> roles;  // template's role → spellings in the data
  std::vector<std::string> roles_to_train = {"assistant"};
  std::int64_t train_on_turns = 0;  // the last N turns of roles_to_train; 0: all of them
  LearnEnd train_on_eos = LearnEnd::turn;
  std::optional<LearnEnd> train_on_eot;  // unset: as train_on_eos
  std::optional<std::string> message_field_training;
  std::optional<std::string> message_field_training_detail;
  bool drop_system_message = false, split_thinking = false;
  std::string field_chosen = "chosen", field_rejected = "rejected";  // of preferences
  std::string field_margin = "margin";                               // … for a reward model
  std::optional<std::string> field_weight, message_field_weight;     // of a row's loss, of a message's tokens
  std::string step_separator = "\n";                                 // type stepwise_supervised: behind every step
  std::optional<std::int64_t> max_completion_length;                 // … and tokens of all of them
  bool train_on_last_step_only = false;
  // plain text and instruction rows
  std::optional<std::string> field;               // completion: the column; unset: "text"
  std::optional<std::string> text_column;         // pretraining: the column; unset: "text"
  bool operator==(const DatasetEntry&) const = default;
};

/// Rows by the losses that `dml score` wrote.
struct ScoreFilter {
  std::string path;                          // "": no filter
  std::optional<double> max_loss, min_loss;  // rows outside are dropped
  std::vector<std::string> drop;             // places, "FILE:LINE"
  bool operator==(const ScoreFilter&) const = default;
};

struct DataSection {
  RowKind rows = RowKind::text;  // no key of its own
  std::vector<DatasetEntry> datasets, test_datasets, pretraining_dataset;
  double val_set_size = 0;  // below 1: share of the rows; from 1 on: number of rows
  std::string dataset_prepared_path = "last_run_prepared";
  std::int64_t sequence_len = 512;
  std::int64_t completion_len = 0;  // no key of its own: tokens that are generated behind a prompt, part of sequence_len
  std::optional<std::int64_t> eval_sequence_len;  // unset: sequence_len
  ExcessLength excess_length_strategy = ExcessLength::drop;
  std::int64_t min_sample_len = 2;
  bool train_on_inputs = false;
  bool sample_packing = false;
  bool eval_sample_packing = false;  // unset in the recipe: as sample_packing
  std::int64_t sample_packing_group_size = 100000;
  std::int64_t sample_packing_bin_size = 200;  // most examples in one row
  bool sample_packing_sequentially = false;
  bool shuffle_merged_datasets = true;
  bool shuffle_before_merging_datasets = false;
  bool curriculum_sampling = false;  // keep the order of the data
  bool group_by_length = false;
  bool dataset_exact_deduplication = false;
  bool dataset_near_deduplication = false;
  ScoreFilter scores;
  std::optional<std::int64_t> dataset_shard_num;  // train on one shard of the merged data
  std::int64_t dataset_shard_idx = 0;
  BadRow on_bad_row = BadRow::error;
  bool operator==(const DataSection&) const = default;
};

struct TemplateSection {
  std::optional<std::string> chat_template;        // built-in name, tokenizer_default[_fallback_NAME], jinja
  std::optional<std::string> chat_template_jinja;  // text or file
  Json chat_template_kwargs = Json::object();
  std::optional<std::vector<std::string>> eot_tokens;  // unset: the eos token
  std::optional<std::string> default_system_message;
  bool operator==(const TemplateSection&) const = default;
};

// ---- training

struct LrGroup {
  std::string name;
  std::vector<std::string> modules;  // substrings of parameter names
  double lr = 0;
  bool operator==(const LrGroup&) const = default;
};

/// A check of an evaluation: a name, or a table whose first key is the name ("regex: PATTERN") and whose others are options.
struct EvalCheck {
  std::string name;
  Json value, options = Json::object();
  bool operator==(const EvalCheck&) const = default;
};

struct EvalEntry {
  std::string name, path;
  std::vector<Json> prompts;  // rows, in place of a path
  std::string task;           // a task of lm-evaluation-harness, in place of rows and checks
  bool raw = false;
  std::optional<std::int64_t> every;  // steps; unset: at every evaluation
  std::int64_t max_new_tokens = 256;
  std::vector<EvalCheck> checks;
  std::map<std::string, double> fail_below;
  bool operator==(const EvalEntry&) const = default;
};

struct EvalSection {
  std::vector<EvalEntry> evals;
  bool operator==(const EvalSection&) const = default;
};

struct OptimSection {
  std::string optimizer = "adamw";  // name in the registry; Axolotl's many spellings are mapped to it
  Json optim_args = Json::object();
  std::vector<std::string> optim_target_modules;
  double learning_rate = 0;  // the peak
  std::string lr_scheduler = "cosine";
  Json lr_scheduler_kwargs = Json::object();
  std::optional<std::int64_t> warmup_steps;  // neither set: 3 % of the steps, at most 100
  std::optional<double> warmup_ratio;
  bool lr_quadratic_warmup = false;
  std::optional<double> cosine_min_lr_ratio;
  std::optional<double> cosine_constant_lr_ratio;
  double weight_decay = 0;
  std::optional<double> adam_beta1, adam_beta2, adam_beta3, adam_epsilon, adam_epsilon2;  // unset: the optimizer's own
  double max_grad_norm = 1;  // 0: no clipping
  std::optional<double> embedding_lr, embedding_lr_scale;
  std::optional<double> ema_decay;
  Bf16Weights bf16_weights = Bf16Weights::off;
  std::vector<LrGroup> lr_groups;
  std::optional<std::int64_t> jagged_restart_steps;  // restarts of the learning rate, and of an adapter with relora
  std::int64_t jagged_restart_warmup_steps = 10, jagged_restart_anneal_steps = 1;
  bool operator==(const OptimSection&) const = default;
};

/// A checkpoint whenever somebody makes a file.
struct DynamicCheckpoint {
  bool enabled = false;
  std::int64_t check_interval = 10;  // steps
  std::optional<std::string> trigger_file_path;
  bool operator==(const DynamicCheckpoint&) const = default;
};

struct TrainSection {
  std::string output_dir = "./model-out";
  std::int64_t micro_batch_size = 1;
  std::optional<std::int64_t> gradient_accumulation_steps;  // micro-batches per rank and step; set unless batch_size is
  std::optional<std::int64_t> batch_size;                   // examples (rows, when packed) per step over all ranks
  std::int64_t eval_batch_size = 1;                         // unset in the recipe: micro_batch_size
  double num_epochs = 1;
  std::optional<std::int64_t> max_steps;  // wins over num_epochs
  std::int64_t seed = 42;
  std::optional<int> threads;  // per rank; unset: the cores this rank may use
  Recompute gradient_checkpointing = Recompute::none;
  std::optional<int> gradient_checkpointing_layers;
  Storage activation_storage =
      Storage::automatic;  // between forward and backward; automatic: bf16 on a quantised base, else f32
  Bf16 bf16 = Bf16::off;  // factors of matrix products
  double neftune_noise_alpha = 0;
  double label_smoothing_factor = 0, z_loss = 0;  // of the token loss
  // cadence; fractions below 1 are shares of the whole run
  Cadence eval_strategy = Cadence::automatic;  // automatic: eval_steps, else evals_per_epoch, else once per epoch
  std::optional<double> eval_steps, evals_per_epoch;
  bool eval_on_start = true;
  Cadence save_strategy = Cadence::automatic;  // automatic: save_steps, else saves_per_epoch, else once per epoch
  std::optional<double> save_steps, saves_per_epoch;
  std::int64_t save_total_limit = 4;
  bool save_only_model = false;
  bool save_first_step = false;
  bool save_on_signal = true;
  bool save_in_background = true;
  std::optional<double> max_time;             // seconds; then save and stop
  std::optional<std::int64_t> logging_steps;  // unset: a twentieth of the steps
  std::optional<std::string> resume_from_checkpoint;
  bool auto_resume_from_checkpoints = false;
  bool load_best_model_at_end = false;
  std::string metric_for_best_model = "eval_loss";
  std::optional<bool> greater_is_better;
  std::optional<std::int64_t> early_stopping_patience;
  std::optional<double> loss_watchdog_threshold;
  std::int64_t loss_watchdog_patience = 3;
  std::int64_t nonfinite_patience = 3;
  DynamicCheckpoint dynamic_checkpoint;
  bool operator==(const TrainSection&) const = default;

  /// Micro-batches of one optimizer step, over all ranks.
  std::int64_t micro_batches_per_step(std::int64_t ranks) const {
    return batch_size ? *batch_size / micro_batch_size : gradient_accumulation_steps.value_or(1) * ranks;
  }
};

/// Learning from rewards, with Axolotl's and TRL's names.
struct TrlSettings {
  std::optional<double> beta;  // unset: rl_beta; of grpo 0
  std::int64_t num_generations = 8, max_completion_length = 512;
  double temperature = 1, repetition_penalty = 1;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p, min_p;
  std::int64_t num_iterations = 1;                  // steps over the same completions
  std::optional<std::int64_t> steps_per_generation;  // micro-batches of a rank; unset: those of one step
  std::string loss_type = "dapo", importance_sampling_level = "token", scale_rewards = "group";
  std::string multi_objective_aggregation = "sum_then_normalize";
  double epsilon = 0.2;
  std::optional<double> epsilon_high, delta;  // unset: epsilon; no upper bound
  bool mask_truncated_completions = false;
  std::vector<double> reward_weights;  // empty: all 1
  bool log_completions = false, sync_ref_model = false;  // sync_ref_model, also of dpo: the reference follows the trained weights …
  std::int64_t num_completions_to_print = 3;
  double ref_model_mixup_alpha = 0.6;         // … taking so much of them
  std::int64_t ref_model_sync_steps = 512;
  bool operator==(const TrlSettings&) const = default;
};

/// Learning from preferences and rewards.
struct PreferenceSection {
  Rl rl = Rl::none;
  std::optional<double> rl_beta;  // unset: orpo_alpha, else 0.1
  std::vector<std::string> dpo_loss_type = {"sigmoid"};
  std::vector<double> dpo_loss_weights;  // empty: all 1
  double dpo_label_smoothing = 0;
  std::string f_divergence_type = "reverse_kl";
  double f_alpha_divergence_coef = 0.5;
  bool precompute_ref_log_probs = true;
  std::optional<double> ld_alpha;  // weight of the tokens by which one answer of a pair is longer
  bool dpo_use_weighting = false;
  std::optional<double> orpo_alpha;  // another name of beta
  double simpo_gamma = 0.5;
  std::string cpo_loss_type = "sigmoid";
  double cpo_alpha = 1;
  std::string kto_loss_type = "kto";
  double kto_desirable_weight = 1, kto_undesirable_weight = 1;
  TrlSettings trl;
  std::vector<EvalCheck> rewards;
  bool reward_model = false, process_reward_model = false;
  std::optional<std::int64_t> num_labels;
  double center_rewards_coefficient = 0;
  bool operator==(const PreferenceSection&) const = default;

  double beta() const { return trl.beta.value_or(rl_beta.value_or(orpo_alpha.value_or(rl == Rl::grpo ? 0 : 0.1))); }
  bool needs_reference() const { return rl == Rl::dpo || rl == Rl::kto; }
  bool moves_reference() const { return trl.sync_ref_model && (rl == Rl::dpo || rl == Rl::grpo); }
  /// What the model answers itself; null: nothing.
  const TrlSettings* sampling() const { return rl == Rl::grpo ? &trl : nullptr; }
};

struct DistributionSection {
  std::optional<std::string> distribution;    // name in the registry; unset: none on one rank, else see strategy_name()
  double dist_timeout = 1800;                 // seconds a rank waits for the others
  bool gradient_tree = true;                  // false: less memory, bits depend on the number of ranks
  std::optional<std::int64_t> dp_shard_size;  // hybrid: ranks that share one copy; unset: those of a host
  Storage comm_dtype = Storage::f32;          // how gradients travel; bf16: bits depend on the number of ranks
  std::optional<bool> shard_frozen_weights;   // zero3, hybrid; unset: where the base does not fit a host's memory
  bool operator==(const DistributionSection&) const = default;
};

struct GenerationSection {
  bool generate_samples = false;  // show samples at every evaluation
  std::int64_t num_generation_samples = 3;
  double generation_prompt_ratio = 0.5;
  std::int64_t generation_max_new_tokens = 256;
  bool generation_do_sample = true;
  double generation_temperature = 0.7;
  std::optional<std::int64_t> generation_top_k;
  std::optional<double> generation_top_p, generation_min_p;
  double generation_repetition_penalty = 1;
  bool operator==(const GenerationSection&) const = default;
};

struct LogSection {
  bool use_tensorboard = false, use_mlflow = false;
  std::optional<std::string> mlflow_tracking_uri, mlflow_experiment_name, mlflow_run_name;
  std::optional<bool> use_wandb;
  std::optional<std::string> wandb_project, wandb_entity, wandb_name, wandb_run_id;
  std::string wandb_mode = "offline";  // or "disabled"
  std::optional<std::string> hub_model_id;   // where results are pushed: "org/name"
  std::string hub_strategy = "every_save";   // end, every_save, checkpoint, all_checkpoints
  std::optional<std::string> hub_revision;   // branch; unset: main
  bool hub_private_repo = false;
  bool operator==(const LogSection&) const = default;

  bool wandb() const { return use_wandb.value_or(wandb_project && !wandb_project->empty()) && wandb_mode != "disabled"; }
};

struct PluginSection {
  std::vector<std::string> plugins;  // shared libraries
  Json plugin_args = Json::object();  // by the name of an objective, evaluator, observer or strategy
  std::optional<std::string> objective;
  bool operator==(const PluginSection&) const = default;
};

struct Recipe {
  ModelSection model;
  AdapterSection adapter;
  DataSection data;
  TemplateSection templates;
  OptimSection optim;
  TrainSection train;
  EvalSection evaluation;
  PreferenceSection preference;
  DistributionSection distribution;
  GenerationSection generation;
  LogSection log;
  PluginSection plugin;
  bool operator==(const Recipe&) const = default;
};

// ---- reading

/// One setting given on the command line: key (dotted for nesting) and its text.
struct Override {
  std::string key, value;
};

/// Reads "--key value", "--key=value", "--a.b.0.c value", with - or _; "--flag" alone is true, "--no-flag" false.
/// UserError on an unknown option or a missing value, with the nearest key.
std::vector<Override> parse_overrides(const std::vector<std::string>& arguments);

/// A recipe with everything worth telling about how it was read.
struct RecipeFile {
  Recipe recipe;
  std::string path, text;                      // the file as it is
  std::map<std::string, std::string> origins;  // "lora_r", "datasets.0.path" → "FILE:LINE:COLUMN",
                                               // "command line", "default", "from KEY"
  std::vector<std::string> notices;            // what was mapped or has no effect here
  std::vector<std::string> warnings;           // what is probably not meant
  std::vector<Problem> missing;                // files and directories that are named and do not exist

  /// The problem with the place of its key; of the table around it when the key itself has no value in the recipe.
  Problem located(Problem problem) const;
};

/// Calls `work`; problems that it throws get the places of their keys.
template <class Work>
auto with_places(const RecipeFile& file, Work&& work) {
  try {
    return work();
  } catch (const UserError& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) problem = file.located(std::move(problem));
    throw UserError(std::move(problems));
  }
}

/// What a recipe is read for: `measure` (also for commands that train nothing) takes one without datasets and
/// learning_rate, too.
enum class RecipeUse { train, measure };

/// UserError with one line for every problem of the recipe, "FILE:LINE:COLUMN: …", sorted by line.
RecipeFile load_recipe(const std::string& path, const std::vector<Override>& overrides = {},
                       RecipeUse use = RecipeUse::train);
/// The same from text; messages use `name` as the file's name.
RecipeFile read_recipe(const std::string& text, const std::string& name, const std::vector<Override>& overrides = {},
                       RecipeUse use = RecipeUse::train);

// ---- what else the field list gives

/// Every key that has an effect, in the order of the reference.
std::vector<std::string> keys();
/// Several lines about one key ("lora_r", "datasets.path"); UserError with the nearest key when there is none.
std::string help_for(const std::string& key);
/// One key as manual pages and shell completions show it.
struct KeyHelp {
  std::string name, help, type, fallback, example;  // fallback: the default, or what happens without the key
  std::vector<std::string> values;                  // where only these are allowed
  bool path = false;                                // names a file or a directory
};
struct KeySection {
  std::string title, intro;
  std::vector<KeyHelp> keys;
};
/// Every key that has an effect, in the order of the reference.
std::vector<KeySection> key_sections();
/// A spelling of a value; `notice` is told when it stands for something a little different. `keys`: of the settings that have
/// an effect with some values only, those that have one with this (adam_beta1 …).
struct Choice {
  std::string spelling, value, notice = {};
  std::vector<std::string> keys = {};
};
/// Loads a plug-in that a recipe lists, before the recipe is checked. Returns what it is, for people. Throws UserError.
using PluginLoader = std::function<std::string(const std::string& path)>;
void set_plugin_loader(PluginLoader loader);
/// The values of a key whose names belong to another folder (optimizer, lr_scheduler). Before it is called, the key takes any
/// text; it is called again where a program has added a row to a registry.
void set_choices(const std::string& key, std::vector<Choice> choices);
/// JSON Schema (draft 2020-12) of a recipe, for editors.
Json json_schema();
/// recipes/REFERENCE.md.
std::string reference_markdown();
/// Every setting with its value, as YAML that parses to the same Recipe; with_origins puts each one's origin behind it.
std::string resolved_yaml(const RecipeFile& file, bool with_origins = false);
/// Digest of the settings that decide what the prepared data are (files' contents are the caller's to add).
std::string data_digest(const Recipe& recipe);

}  // namespace dml
