// Rules between settings. An error is reported at one setting and names the line of the other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "recipe/rule_report.h"
#include "recipe/stages.h"

namespace dml::recipe {
namespace {

void check_model(const Recipe& recipe, RecipeUse use, RuleReport& rules) {
  const auto& m = recipe.model;
  const bool missing = m.base_model.empty() && m.model_config.empty();
  if (missing) rules.missing("base_model", "set a model directory, or an architecture under 'model_config'");
  // Only a result that is a whole model holds the random weights it was trained on.
  if (use == RecipeUse::train && (m.reinit_weights || m.base_model.empty()) && !missing &&
      !recipe.adapter.makes_model())
    rules.error("adapter",
                fmt::format("'adapter' needs a base that is stored: {}, the adapter's base has random weights, which "
                            "are saved nowhere; {}, or train all weights, or set relora: true",
                            m.base_model.empty() ? "without 'base_model'" : "with " + rules.cite("reinit_weights"),
                            m.base_model.empty() ? "set base_model" : "remove reinit_weights"));
  if (recipe.train.output_dir.empty()) rules.error("output_dir", "'output_dir' must not be empty");
  std::error_code unknown;
  if (!m.base_model.empty() && std::filesystem::equivalent(m.base_model, recipe.train.output_dir, unknown))
    rules.error("output_dir", fmt::format("'output_dir' is the same directory as {}; the model would be overwritten",
                                          rules.cite("base_model")));
}

void check_restarts(const OptimSection& o, RuleReport& rules) {
  if (!o.jagged_restart_steps) {
    const OptimSection fresh;  // a resolved recipe sets every key, so defaults are allowed
    for (auto [key, changed] :
         {std::pair{"jagged_restart_warmup_steps", o.jagged_restart_warmup_steps != fresh.jagged_restart_warmup_steps},
          std::pair{"jagged_restart_anneal_steps", o.jagged_restart_anneal_steps != fresh.jagged_restart_anneal_steps}})
      if (changed) rules.error(key, fmt::format("'{}' needs jagged_restart_steps", key));
    return;
  }
  if (o.lr_scheduler == "one_cycle")
    rules.error("jagged_restart_steps",
                fmt::format("'jagged_restart_steps' does not work with {}: one_cycle", rules.cite("lr_scheduler")));
  if (o.jagged_restart_warmup_steps + o.jagged_restart_anneal_steps > *o.jagged_restart_steps + 1)
    rules.error(
        "jagged_restart_steps",
        fmt::format("'jagged_restart_steps' of {} is too short for {} of {} and {} of {}", *o.jagged_restart_steps,
                    rules.cite("jagged_restart_warmup_steps"), o.jagged_restart_warmup_steps,
                    rules.cite("jagged_restart_anneal_steps"), o.jagged_restart_anneal_steps));
}

void check_entries(const std::string& list, const std::vector<DatasetEntry>& entries, const Recipe& recipe,
                   RuleReport& rules) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& e = entries[i];
    auto key = [&](const char* name) { return fmt::format("{}.{}.{}", list, i, name); };
    if (e.shards_idx >= e.shards.value_or(e.shards_idx + 1))
      rules.error(key("shards_idx"), fmt::format("'{}' must be below {}, which is {}", key("shards_idx"),
                                                 rules.cite(key("shards")), *e.shards));
    if (e.shards_idx > 0 && !e.shards)
      rules.error(key("shards_idx"), fmt::format("'{}' needs 'shards'", key("shards_idx")));
    if (e.chat_template == "jinja" && !e.chat_template_jinja && !recipe.templates.chat_template_jinja)
      rules.error(key("chat_template"), fmt::format("'{}: jinja' needs chat_template_jinja", key("chat_template")));
    if (e.chat_template_jinja && e.chat_template != "jinja")
      rules.exclusive(key("chat_template"), key("chat_template_jinja"));
  }
}

void check_data(const Recipe& recipe, RecipeUse use, RuleReport& rules) {
  const auto& d = recipe.data;
  if (use == RecipeUse::train && d.datasets.empty() && d.pretraining_dataset.empty())
    rules.missing("datasets", "add at least one dataset, for example datasets: [{path: train.jsonl, type: alpaca}]");
  if (!d.datasets.empty() && !d.pretraining_dataset.empty()) rules.exclusive("datasets", "pretraining_dataset");
  if (!d.test_datasets.empty() && d.val_set_size > 0) rules.exclusive("test_datasets", "val_set_size");
  if (d.eval_sequence_len && d.val_set_size > 0)
    rules.warning("eval_sequence_len",
                  "'eval_sequence_len' has no effect with val_set_size, whose examples have up to "
                  "sequence_len tokens; it is for test_datasets");
  if (d.val_set_size >= 1 && d.val_set_size != static_cast<double>(static_cast<std::int64_t>(d.val_set_size)))
    rules.error("val_set_size", "'val_set_size' must be a fraction below 1 or a whole number of examples");
  if (d.min_sample_len > d.sequence_len)
    rules.error("min_sample_len", fmt::format("'min_sample_len' is above {}, so every example would be dropped",
                                              rules.cite("sequence_len")));
  if (d.dataset_shard_idx > 0 && d.dataset_shard_idx >= d.dataset_shard_num.value_or(1))
    rules.error("dataset_shard_idx", "'dataset_shard_idx' must be below 'dataset_shard_num'");
  if (const ScoreFilter& s = d.scores; s.path.empty() && (s.max_loss || s.min_loss))
    rules.error("scores", "'scores' has limits and no losses: set scores.path to what `dml score` wrote");
  if (const ScoreFilter& s = d.scores; s.max_loss && s.min_loss && *s.max_loss < *s.min_loss)
    rules.error("scores.max_loss", fmt::format("'scores.max_loss' of {} is below {} of {}", *s.max_loss,
                                               rules.cite("scores.min_loss"), *s.min_loss));
  if (d.group_by_length && d.sample_packing && d.rows == RowKind::text)
    rules.warning("group_by_length",
                  fmt::format("'group_by_length' has no effect with {}", rules.cite("sample_packing")));
  else if (d.group_by_length && d.curriculum_sampling)
    rules.warning("group_by_length", fmt::format("'group_by_length' has no effect with {}, which keeps the order",
                                                 rules.cite("curriculum_sampling")));
  check_entries("datasets", d.datasets, recipe, rules);
  check_entries("test_datasets", d.test_datasets, recipe, rules);
  const auto& t = recipe.templates;
  if (t.chat_template == "jinja" && !t.chat_template_jinja)
    rules.error("chat_template", "'chat_template: jinja' needs chat_template_jinja");
  if (t.chat_template_jinja && t.chat_template != "jinja") rules.exclusive("chat_template", "chat_template_jinja");
}

/// Checks the keys that only some schedules read.
void check_schedule(const OptimSection& o, RuleReport& rules) {
  for (const auto& [key, wanted] : {std::pair{"lr_quadratic_warmup", o.lr_quadratic_warmup},
                                    {"cosine_min_lr_ratio", o.cosine_min_lr_ratio.has_value()},
                                    {"cosine_constant_lr_ratio", o.cosine_constant_lr_ratio.has_value()}})
    if (wanted && !has_effect(key, "lr_scheduler", o.lr_scheduler))
      rules.warning(key,
                    fmt::format("'{}' has no effect with {}: {}", key, rules.cite("lr_scheduler"), o.lr_scheduler));
    else if (wanted && o.lr_quadratic_warmup && key != std::string_view("lr_quadratic_warmup") &&
             has_effect("lr_quadratic_warmup", "lr_scheduler", o.lr_scheduler))
      rules.warning(key, fmt::format("'{}' has no effect with {}: the cosine ends at zero", key,
                                     rules.cite("lr_quadratic_warmup")));
  if (o.cosine_constant_lr_ratio && !o.cosine_min_lr_ratio)
    rules.error("cosine_constant_lr_ratio", "'cosine_constant_lr_ratio' needs cosine_min_lr_ratio");
}

void check_optim(const Recipe& recipe, RecipeUse use, RuleReport& rules) {
  const auto& o = recipe.optim;
  if (use == RecipeUse::train && !rules.given("learning_rate"))
    rules.missing("learning_rate", "typical values are 1e-5 to 5e-5 for full fine-tuning, 1e-4 to 3e-4 for an adapter");
  if (o.learning_rate > 0.1)
    rules.warning("learning_rate", fmt::format("'learning_rate' of {} is unusually high", o.learning_rate));
  check_schedule(o, rules);
  if (o.ema_decay && o.bf16_weights != Bf16Weights::off)
    rules.error("bf16_weights", fmt::format("'bf16_weights' would round the average of {}; remove one of them",
                                            rules.cite("ema_decay")));
  if (o.reduces_on_plateau() && !recipe.data.has_validation() && recipe.evaluation.evals.empty() &&
      use == RecipeUse::train)
    rules.error("lr_scheduler",
                "'lr_scheduler: reduce_lr_on_plateau' needs evaluations; set val_set_size, test_datasets or evals");
  else if (o.reduces_on_plateau() && recipe.train.eval_strategy == IntervalStrategy::never)
    rules.error("lr_scheduler", fmt::format("'lr_scheduler: reduce_lr_on_plateau' needs evaluations, and {} is 'no'",
                                            rules.cite("eval_strategy")));
  for (const char* key :
       {"adam_beta1", "adam_beta2", "adam_beta3", "adam_epsilon", "adam_epsilon2", "optim_target_modules"})
    if (changes(recipe, key, rules) && !has_effect(key, "optimizer", o.optimizer))
      rules.warning(key, fmt::format("'{}' has no effect with {}: {}", key, rules.cite("optimizer"), o.optimizer));
}

/// Checks eval_strategy with eval_steps and evals_per_epoch, and the corresponding settings of saving.
void check_cadence(IntervalStrategy cadence, const std::string& strategy, const std::string& steps,
                   const std::string& per_epoch, RuleReport& rules) {
  if (cadence == IntervalStrategy::steps && !rules.given(steps) && !rules.given(per_epoch))
    rules.error(strategy, fmt::format("'{}: steps' needs {}", strategy, steps));
  if (cadence == IntervalStrategy::automatic || cadence == IntervalStrategy::steps) return;
  for (const auto& key : {steps, per_epoch})
    if (rules.given(key))
      rules.error(key, fmt::format("'{}' contradicts {}; remove one of them", key, rules.cite(strategy)));
}

/// Checks that what chooses the best model has evaluations and checkpoints.
void check_best_model(const TrainSection& t, RuleReport& rules) {
  if (t.eval_strategy == IntervalStrategy::never)
    for (auto [key, wanted] : {std::pair{"early_stopping_patience", t.early_stopping_patience.has_value()},
                               {"load_best_model_at_end", t.load_best_model_at_end},
                               {"save_strategy", t.save_strategy == IntervalStrategy::best}})
      if (wanted)
        rules.error(key, fmt::format("'{}' needs evaluations, and there are none with {}: no", key,
                                     rules.cite("eval_strategy")));
  if (t.save_strategy == IntervalStrategy::never && t.load_best_model_at_end)
    rules.error("load_best_model_at_end", fmt::format("'load_best_model_at_end' needs checkpoints, and there are none "
                                                      "with {}: no",
                                                      rules.cite("save_strategy")));
}

void check_train(const Recipe& recipe, RuleReport& rules) {
  const auto& t = recipe.train;
  for (auto [a, b] : kAlternatives) rules.exclusive(a, b);
  if (t.batch_size && *t.batch_size % t.micro_batch_size)
    rules.error("batch_size", fmt::format("'batch_size' of {} must be a multiple of {}, which is {}", *t.batch_size,
                                          rules.cite("micro_batch_size"), t.micro_batch_size));
  if (t.gradient_checkpointing_layers && t.gradient_checkpointing == Recompute::none)
    rules.error("gradient_checkpointing_layers",
                "'gradient_checkpointing_layers' needs gradient_checkpointing: true or mlp");
  check_cadence(t.eval_strategy, "eval_strategy", "eval_steps", "evals_per_epoch", rules);
  check_cadence(t.save_strategy, "save_strategy", "save_steps", "saves_per_epoch", rules);

  const char* why = "there is no validation data; set val_set_size or test_datasets";
  const bool split = recipe.data.has_validation();
  if (!split && recipe.generation.generate_samples)
    rules.error("generate_samples", fmt::format("'generate_samples': {}", why));
  if (!split && !t.eval_metrics.empty()) rules.error("eval_metrics", fmt::format("'eval_metrics': {}", why));
  for (auto name = t.eval_metrics.begin(); name != t.eval_metrics.end(); ++name)
    if (std::find(t.eval_metrics.begin(), name, *name) != name)
      rules.error("eval_metrics", fmt::format("'eval_metrics' names '{}' twice", *name));
  if (!split && recipe.evaluation.evals.empty()) {
    if (t.eval_steps) rules.error("eval_steps", fmt::format("'eval_steps': {}", why));
    if (t.eval_strategy == IntervalStrategy::steps || t.eval_strategy == IntervalStrategy::epoch)
      rules.error("eval_strategy", fmt::format("'eval_strategy': {}", why));
    if (t.save_strategy == IntervalStrategy::best)
      rules.error("save_strategy", fmt::format("'save_strategy: best': {}", why));
    if (t.early_stopping_patience)
      rules.error("early_stopping_patience", fmt::format("'early_stopping_patience': {}", why));
    if (t.load_best_model_at_end)
      rules.error("load_best_model_at_end", fmt::format("'load_best_model_at_end': {}", why));
    if (t.evals_per_epoch) rules.warning("evals_per_epoch", fmt::format("'evals_per_epoch' has no effect: {}", why));
  }
  check_best_model(t, rules);
  for (const auto& [key, wanted] : {std::pair{"early_stopping_patience", t.early_stopping_patience.has_value()},
                                    std::pair{"load_best_model_at_end", t.load_best_model_at_end}}) {
    if (wanted && t.eval_steps && t.save_steps && *t.eval_steps >= 1 && *t.save_steps >= 1 &&
        std::fmod(*t.save_steps, *t.eval_steps) != 0)
      rules.error("save_steps", fmt::format("'save_steps' must be a multiple of {} because of {}",
                                            rules.cite("eval_steps"), rules.cite(key)));
  }
  for (const auto& [key, steps] : {std::pair{"eval_steps", t.eval_steps}, std::pair{"save_steps", t.save_steps}}) {
    if (steps && *steps >= 1 && *steps != std::floor(*steps))
      rules.error(key, fmt::format("'{}' must be a whole number, or a fraction below 1", key));
    if (steps && t.max_steps && *steps > static_cast<double>(*t.max_steps))
      rules.warning(key,
                    fmt::format("'{}' is above {}, so the run ends before that step", key, rules.cite("max_steps")));
  }
}

void check_distribution(const DistributionSection& d, RuleReport& rules) {
  const auto needs = [&](const char* key) {
    if (d.distribution && has_effect(key, "distribution", *d.distribution)) return;
    std::vector<std::string> names;
    for (const Choice& choice : find_field("distribution").field->rules.choices)
      if (std::ranges::find(choice.keys, key) != choice.keys.end()) names.push_back(choice.spelling);
    rules.error(key, fmt::format("'{}' needs distribution: {}; {} is '{}'", key, fmt::join(names, " or "),
                                 rules.cite("distribution"), d.distribution.value_or("unset")));
  };
  if (d.dp_shard_size) needs("dp_shard_size");
  if (d.shard_frozen_weights == true) needs("shard_frozen_weights");
}

}  // namespace

bool changes(const Recipe& recipe, const char* key, const RuleReport& rules) {
  if (!rules.given(key)) return false;
  const auto [section, field] = find_field(key);
  return field->write(section->of(recipe)) != field->write(section->table.default_owner());
}

const Choice* choice_of(const char* key, const std::string& value) {
  const auto& choices = find_field(key).field->rules.choices;
  const auto found = std::ranges::find(choices, value, &Choice::spelling);
  return found == choices.end() ? nullptr : &*found;
}

bool has_effect(const char* setting, const char* key, const std::string& value) {
  const Choice* choice = choice_of(key, value);
  return !choice || std::ranges::find(choice->keys, setting) != choice->keys.end();
}

void check_rules(const Recipe& recipe, RecipeUse use, Reading& reading) {
  RuleReport rules(reading);
  check_model(recipe, use, rules);
  check_adapter(recipe, rules);
  check_relora(recipe, rules);
  check_data(recipe, use, rules);
  check_optim(recipe, use, rules);
  check_restarts(recipe.optim, rules);
  check_train(recipe, rules);
  check_preference(recipe, rules);
  check_distribution(recipe.distribution, rules);
  check_log(recipe.log, rules);
  check_evals(recipe.evaluation, rules);
  check_idle_keys(recipe, rules);
}

}  // namespace dml::recipe
