// A recipe: every setting of a job, typed, checked and with its default filled in.
//
// Members are named like the recipe's keys (Axolotl's spellings). The meaning, range and help of a key are written
// once, in fields_*.cpp. Functions take only the section that they need; no folder below `assembly` sees the whole
// Recipe, and no code looks up a setting by name. A std::optional member is one whose unset state differs from every
// value; its comment says what it means.
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
#include "core/placement.h"
#include "recipe/keys.h"
#include "recipe/section_data.h"
#include "recipe/section_model.h"

namespace dml {

// ---- training

struct LrGroup {
  std::string name;
  std::vector<std::string> modules;  // substrings of parameter names
  double lr = 0;
  bool operator==(const LrGroup&) const = default;
};

/// A check of an evaluation: a name, or a table whose first key is the name ("regex: PATTERN") and whose other keys are
/// options.
struct EvalCheck {
  std::string name;
  Json value, options = Json::object();
  bool operator==(const EvalCheck&) const = default;
};

struct EvalEntry {
  std::string name, path;
  std::vector<Json> prompts;  // rows, instead of a path
  std::string task;           // a task of lm-evaluation-harness, instead of rows and checks
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
  std::string optimizer = "adamw";  // name in the registry, to which Axolotl's spellings are mapped
  Json optim_args = Json::object();
  std::vector<std::string> optim_target_modules;
  double learning_rate = 0;  // the peak
  std::string lr_scheduler = "cosine";
  Json lr_scheduler_kwargs = Json::object();
  bool reduces_on_plateau() const { return lr_scheduler == "reduce_lr_on_plateau"; }
  std::optional<std::int64_t> warmup_steps;  // neither warmup_steps nor warmup_ratio: 3 % of the steps, at most 100
  std::optional<double> warmup_ratio;
  bool lr_quadratic_warmup = false;
  std::optional<double> cosine_min_lr_ratio;
  std::optional<double> cosine_constant_lr_ratio;
  double weight_decay = 0;
  std::optional<double> adam_beta1, adam_beta2, adam_beta3, adam_epsilon,
      adam_epsilon2;         // unset: the optimizer's default
  double max_grad_norm = 1;  // 0: no clipping
  std::optional<double> embedding_lr, embedding_lr_scale;
  std::optional<double> ema_decay;
  Bf16Weights bf16_weights = Bf16Weights::off;
  std::vector<LrGroup> lr_groups;
  std::optional<std::int64_t>
      jagged_restart_steps;  // interval of restarts of the learning rate; with relora, of the adapter, too
  std::int64_t jagged_restart_warmup_steps = 10, jagged_restart_anneal_steps = 1;
  bool operator==(const OptimSection&) const = default;
};

/// Saves a checkpoint whenever a trigger file appears.
struct DynamicCheckpoint {
  bool enabled = false;
  std::int64_t check_interval = 10;  // steps
  std::optional<std::string> trigger_file_path;
  bool operator==(const DynamicCheckpoint&) const = default;
};

struct TrainSection {
  std::string output_dir = "./model-out";
  std::int64_t micro_batch_size = 1;
  std::optional<std::int64_t> gradient_accumulation_steps;  // micro-batches per rank and step; set if batch_size is not
  std::optional<std::int64_t> batch_size;                   // examples (rows, when packed) per step over all ranks
  std::int64_t eval_batch_size = 1;                         // unset in the recipe: micro_batch_size
  double num_epochs = 1;
  std::optional<std::int64_t> max_steps;  // takes precedence over num_epochs
  std::int64_t seed = 42;
  std::optional<int> threads;  // per rank; unset: the cores this rank may use
  ThreadAffinity thread_affinity = ThreadAffinity::automatic;
  std::int64_t ranks = 0;  // processes that dml train starts; 0: the fastest number
  Recompute gradient_checkpointing = Recompute::none;
  std::optional<int> gradient_checkpointing_layers;
  std::optional<DType> activation_storage;  // unset: auto
  std::optional<bool> prepack_weights;      // unset: where they are small
  Bf16 bf16 = Bf16::off;                    // precision of the factors of matrix products
  std::optional<std::string> objective;     // name in the registry; unset: follows from the data
  double neftune_noise_alpha = 0;
  double label_smoothing_factor = 0, z_loss = 0;  // of the token loss
  // automatic: by eval_steps (save_steps), else evals_per_epoch, else once per epoch. Steps below 1: share of the run.
  IntervalStrategy eval_strategy = IntervalStrategy::automatic;
  std::optional<double> eval_steps, evals_per_epoch;
  std::vector<std::string> eval_metrics;  // metrics of the validation split besides eval_loss; names in the registry
  bool eval_on_start = true;
  IntervalStrategy save_strategy = IntervalStrategy::automatic;
  std::optional<double> save_steps, saves_per_epoch;
  std::int64_t save_total_limit = 4;
  bool save_only_model = false;
  bool save_first_step = false;
  bool save_on_signal = true;
  bool save_in_background = true;
  std::optional<double> max_time;             // seconds after which the run saves and stops
  std::optional<std::int64_t> logging_steps;  // unset: every 5 % of the steps
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
  bool ranks_share_step = false;  // not a key: dml train started the ranks, which share the step of one rank
  bool operator==(const TrainSection&) const = default;

  /// The number of micro-batches of an optimizer step over all ranks.
  std::int64_t micro_batches_per_step(std::int64_t of_ranks) const {
    if (batch_size) return *batch_size / micro_batch_size;
    return gradient_accumulation_steps.value_or(1) * (ranks_share_step ? 1 : of_ranks);
  }
};

/// Reinforcement learning, with the names of Axolotl and TRL.
struct TrlSettings {
  std::optional<double> beta;  // unset: rl_beta; for grpo 0
  std::int64_t num_generations = 8, max_completion_length = 512;
  double temperature = 1, repetition_penalty = 1;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p, min_p;
  std::int64_t num_iterations = 1;                   // optimizer steps over the same completions
  std::optional<std::int64_t> steps_per_generation;  // micro-batches of a rank; unset: those of one step
  PolicyLoss loss_type = PolicyLoss::dapo;
  RatioLevel importance_sampling_level = RatioLevel::token;
  AdvantageScale scale_rewards = AdvantageScale::group;
  RewardAggregation multi_objective_aggregation = RewardAggregation::sum_then_normalize;
  double epsilon = 0.2;
  std::optional<double> epsilon_high, delta;  // unset: epsilon; no upper bound
  bool mask_truncated_completions = false;
  std::vector<double> reward_weights;  // empty: all 1
  bool log_completions = false;
  bool sync_ref_model = false;  // also for dpo: the reference follows the trained weights:
  std::int64_t num_completions_to_print = 3;
  double ref_model_mixup_alpha = 0.6;  // reference = alpha · trained + (1 − alpha) · reference
  std::int64_t ref_model_sync_steps = 512;
  bool operator==(const TrlSettings&) const = default;
};

/// Training on preferences and rewards.
struct PreferenceSection {
  Rl rl = Rl::none;
  std::optional<double> rl_beta;  // unset: orpo_alpha, else 0.1
  std::vector<std::string> dpo_loss_type = {"sigmoid"};
  std::vector<double> dpo_loss_weights;  // empty: all 1
  double dpo_label_smoothing = 0;
  FDivergence f_divergence_type = FDivergence::reverse_kl;
  double f_alpha_divergence_coef = 0.5;
  bool precompute_ref_log_probs = true;
  std::optional<double> ld_alpha;  // weight of the tokens of an answer beyond the length of the other (LD-DPO)
  bool dpo_use_weighting = false;
  std::optional<double> orpo_alpha;  // another name of beta
  double simpo_gamma = 0.5;
  std::string cpo_loss_type = "sigmoid";
  double cpo_alpha = 1;
  KtoLoss kto_loss_type = KtoLoss::kto;
  double kto_desirable_weight = 1, kto_undesirable_weight = 1;
  TrlSettings trl;
  std::vector<EvalCheck> rewards;
  bool reward_model = false, process_reward_model = false;
  std::optional<std::int64_t> num_labels;
  double center_rewards_coefficient = 0;
  bool operator==(const PreferenceSection&) const = default;

  double beta() const { return trl.beta.value_or(rl_beta.value_or(orpo_alpha.value_or(rl == Rl::grpo ? 0 : 0.1))); }
  bool needs_reference() const { return rl == Rl::dpo || rl == Rl::kto; }
  /// Whether the loss estimates a divergence from pairs of a prompt and another row's answer (Ethayarajh et al. 2024).
  bool mismatches_answers() const { return rl == Rl::kto && kto_loss_type == KtoLoss::kto; }
  bool moves_reference() const { return trl.sync_ref_model && (rl == Rl::dpo || rl == Rl::grpo); }
  /// The settings of completions that the model generates during training; null if it generates none.
  const TrlSettings* sampling() const { return rl == Rl::grpo ? &trl : nullptr; }
};

struct DistributionSection {
  std::optional<std::string> distribution;    // name in the registry; unset: none on one rank, else see strategy_name()
  double dist_timeout = 1800;                 // seconds that a rank waits for the others
  bool gradient_tree = true;                  // false: less memory, but bits depend on the number of ranks
  std::optional<std::int64_t> dp_shard_size;  // hybrid: ranks that share one copy of the model; unset: those of a host
  DType comm_dtype = DType::f32;  // dtype of communicated gradients; with bf16, bits depend on the number of ranks
  std::optional<bool> shard_frozen_weights;  // zero3, hybrid; unset: if the base does not fit a host's memory
  bool operator==(const DistributionSection&) const = default;
};

struct GenerationSection {
  bool generate_samples = false;  // print samples at every evaluation
  std::int64_t num_generation_samples = 3;
  double generation_prompt_ratio = 0.5;
  // Unset: that of the model's generation_config.json.
  std::optional<std::int64_t> generation_max_new_tokens, generation_top_k;
  std::optional<bool> generation_do_sample;
  std::optional<double> generation_temperature, generation_top_p, generation_min_p, generation_repetition_penalty;
  bool operator==(const GenerationSection&) const = default;
};

struct LogSection {
  bool use_tensorboard = false;
  std::optional<bool> use_mlflow;
  std::optional<std::string> mlflow_tracking_uri, mlflow_experiment_name, mlflow_run_name;
  std::optional<bool> use_wandb;
  std::optional<std::string> wandb_project, wandb_entity, wandb_name, wandb_run_id;
  std::string wandb_mode = "offline";       // or "disabled"
  std::optional<std::string> hub_model_id;  // repository that results are pushed to: "org/name"
  HubStrategy hub_strategy = HubStrategy::every_save;
  std::optional<std::string> hub_revision;  // branch; unset: main
  bool hub_private_repo = false;
  bool operator==(const LogSection&) const = default;

  bool mlflow() const { return use_mlflow.value_or(mlflow_experiment_name && !mlflow_experiment_name->empty()); }
  bool wandb() const {
    return use_wandb.value_or(wandb_project && !wandb_project->empty()) && wandb_mode != "disabled";
  }
};

struct PluginSection {
  std::vector<std::string> plugins;   // shared libraries
  Json plugin_args = Json::object();  // arguments by name of an objective, evaluator, observer or strategy
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

/// A setting on the command line or elsewhere beside the recipe: its key (dotted if nested), its text, and its place
/// for messages.
struct Override {
  std::string key, value, place = "command line";
};

/// Parses "--key value", "--key=value", "--a.b.0.c value", with - or _; "--flag" alone is true, "--no-flag" false.
/// Throws UserError with the nearest key for an unknown option or a missing value.
std::vector<Override> parse_overrides(const std::vector<std::string>& arguments);
/// The other ways to give a setting, which an override of `key` replaces: batch_size for gradient_accumulation_steps.
std::vector<std::string> alternatives_of(const std::string& key);

/// A recipe and information about how it was read.
struct RecipeFile {
  Recipe recipe;
  std::string path, text;                      // text: the contents of the file
  std::map<std::string, std::string> origins;  // "lora_r", "datasets.0.path" → "FILE:LINE:COLUMN",
                                               // "command line", "default", "from KEY"
  std::vector<std::string> notices;            // keys that were mapped or have no effect
  std::vector<std::string> warnings;           // settings that are probably mistakes
  std::vector<Problem> problems;               // of the settings; only examine_recipe() returns any
  std::vector<Problem> missing;                // files and directories that the recipe names and that do not exist

  /// The problem with the place of its key or, if the recipe does not set that key, of the table around it.
  Problem located(Problem problem) const;
};

/// Returns work(). Problems of a UserError that it throws get the places of their keys.
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

/// What a recipe is read for. With `measure` (and commands that do not train), datasets and learning_rate are optional.
enum class RecipeUse { train, measure };

/// Throws UserError with one line for every problem of the recipe, "FILE:LINE:COLUMN: …", sorted by line.
RecipeFile load_recipe(const std::string& path, const std::vector<Override>& overrides = {},
                       RecipeUse use = RecipeUse::train);
/// load_recipe() for commands that look further than the recipe: problems of its settings are returned, not thrown. A
/// setting with a problem has its default. Throws UserError for a text that is no YAML table.
RecipeFile examine_recipe(const std::string& path, const std::vector<Override>& overrides = {},
                          RecipeUse use = RecipeUse::train);
/// Reads a recipe from text; `name` is the file name in messages.
RecipeFile read_recipe(const std::string& text, const std::string& name, const std::vector<Override>& overrides = {},
                       RecipeUse use = RecipeUse::train);

// ---- derived from the field list

/// A spelling of a value. `notice`: printed if the spelling is not an exact synonym. `keys`: the settings that affect
/// this value, among those that affect only some values (adam_beta1 …). `flags`: boolean keys of Axolotl that select
/// this value. `needs`: a setting that this value needs.
struct Choice {
  std::string spelling, value, notice = {};
  std::vector<std::string> keys = {}, flags = {};
  std::string needs = {};
};
/// Loads a plug-in before a recipe that lists it is checked. Returns a description for the log. Throws UserError.
using PluginLoader = std::function<std::string(const std::string& path)>;
void set_plugin_loader(PluginLoader loader);
/// Sets the values of a key that are defined in another folder (optimizer, lr_scheduler). Before the first call the key
/// accepts any text. To be called again after a row was added to a registry.
void set_choices(const std::string& key, std::vector<Choice> choices);
/// The JSON Schema (draft 2020-12) of a recipe, for editors.
Json json_schema();
/// The contents of recipes/REFERENCE.md.
std::string reference_markdown();
/// All settings as YAML that parses to the same Recipe; with_origins appends the origin of each as a comment.
std::string resolved_yaml(const RecipeFile& file, bool with_origins = false);
/// The same settings as one JSON object; null where a setting has no value.
Json resolved_json(const RecipeFile& file);

}  // namespace dml
