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

/// A check of an evaluation: a name, or a table whose first key is the name ("regex: PATTERN") and whose others are
/// options.
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
  double max_grad_norm = 1;                                                               // 0: no clipping
  std::optional<double> embedding_lr, embedding_lr_scale;
  std::optional<double> ema_decay;
  Bf16Weights bf16_weights = Bf16Weights::off;
  std::vector<LrGroup> lr_groups;
  std::optional<std::int64_t> jagged_restart_steps;  // restarts of the learning rate, and of an adapter with relora
  std::int64_t jagged_restart_warmup_steps = 10, jagged_restart_anneal_steps = 1;
  bool operator==(const OptimSection&) const = default;
};

/// A checkpoint whenever a certain file appears.
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
  std::int64_t ranks = 0;      // that dml train starts by itself; 0: as many as are fastest
  Recompute gradient_checkpointing = Recompute::none;
  std::optional<int> gradient_checkpointing_layers;
  std::optional<DType> activation_storage;  // of saved activations; unset (auto): bf16 on a quantised base, else f32
  Bf16 bf16 = Bf16::off;                    // factors of matrix products
  std::optional<std::string> objective;     // name in the registry; unset: follows from the data
  double neftune_noise_alpha = 0;
  double label_smoothing_factor = 0, z_loss = 0;  // of the token loss
  // cadence; fractions below 1 are shares of the whole run
  Cadence eval_strategy = Cadence::automatic;  // automatic: eval_steps, else evals_per_epoch, else once per epoch
  std::optional<double> eval_steps, evals_per_epoch;
  std::vector<std::string> eval_metrics;  // of the validation split beside eval_loss; names in the registry
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
  bool ranks_share_step = false;  // no key: dml train started the ranks, and a step is that of one rank
  bool operator==(const TrainSection&) const = default;

  /// Micro-batches of one optimizer step, over all ranks.
  std::int64_t micro_batches_per_step(std::int64_t of_ranks) const {
    if (batch_size) return *batch_size / micro_batch_size;
    return gradient_accumulation_steps.value_or(1) * (ranks_share_step ? 1 : of_ranks);
  }
};

/// Learning from rewards, with Axolotl's and TRL's names.
struct TrlSettings {
  std::optional<double> beta;  // unset: rl_beta; of grpo 0
  std::int64_t num_generations = 8, max_completion_length = 512;
  double temperature = 1, repetition_penalty = 1;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p, min_p;
  std::int64_t num_iterations = 1;                   // steps over the same completions
  std::optional<std::int64_t> steps_per_generation;  // micro-batches of a rank; unset: those of one step
  std::string loss_type = "dapo", importance_sampling_level = "token", scale_rewards = "group";
  std::string multi_objective_aggregation = "sum_then_normalize";
  double epsilon = 0.2;
  std::optional<double> epsilon_high, delta;  // unset: epsilon; no upper bound
  bool mask_truncated_completions = false;
  std::vector<double> reward_weights;  // empty: all 1
  bool log_completions = false,
       sync_ref_model = false;  // sync_ref_model, also of dpo: the reference follows the trained weights …
  std::int64_t num_completions_to_print = 3;
  double ref_model_mixup_alpha = 0.6;  // … taking so much of them
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
  DType comm_dtype = DType::f32;              // how gradients travel; bf16: bits depend on the number of ranks
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
  std::string wandb_mode = "offline";       // or "disabled"
  std::optional<std::string> hub_model_id;  // where results are pushed: "org/name"
  std::string hub_strategy = "every_save";  // end, every_save, checkpoint, all_checkpoints
  std::optional<std::string> hub_revision;  // branch; unset: main
  bool hub_private_repo = false;
  bool operator==(const LogSection&) const = default;

  bool wandb() const {
    return use_wandb.value_or(wandb_project && !wandb_project->empty()) && wandb_mode != "disabled";
  }
};

struct PluginSection {
  std::vector<std::string> plugins;   // shared libraries
  Json plugin_args = Json::object();  // by the name of an objective, evaluator, observer or strategy
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
/// Reads a recipe from text; messages use `name` as the file's name.
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
/// A spelling of a value; `notice` is told when it stands for something a little different. `keys`: of the settings
/// that have an effect with some values only, those that have one with this (adam_beta1 …). `flag`: a key of Axolotl's
/// that means this value where it is true.
struct Choice {
  std::string spelling, value, notice = {};
  std::vector<std::string> keys = {};
  std::string flag = {};
};
/// Loads a plug-in that a recipe lists, before the recipe is checked. Returns what it is, for people. Throws UserError.
using PluginLoader = std::function<std::string(const std::string& path)>;
void set_plugin_loader(PluginLoader loader);
/// The values of a key whose names belong to another folder (optimizer, lr_scheduler). Before it is called, the key
/// takes any text; it is called again where a program has added a row to a registry.
void set_choices(const std::string& key, std::vector<Choice> choices);
/// JSON Schema (draft 2020-12) of a recipe, for editors.
Json json_schema();
/// recipes/REFERENCE.md.
std::string reference_markdown();
/// Every setting with its value, as YAML that parses to the same Recipe; with_origins puts each one's origin after it.
std::string resolved_yaml(const RecipeFile& file, bool with_origins = false);
/// Digest of the settings that decide what the prepared data are (files' contents are the caller's to add).
std::string data_digest(const Recipe& recipe);

}  // namespace dml
