// From a recipe's text to a Recipe: parse, override, rewrite, read, derive, check; all problems are reported at once.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "hub/cache.h"
#include "recipe/reader.h"
#include "recipe/recipe.h"
#include "recipe/stages.h"

namespace dml {
namespace recipe {
namespace {

/// Collects the origins of all settings with a value ("lora_r", "datasets.0.path"), including nested tables.
void collect_origins(const Reading& reading, const std::map<std::string, std::string>& derived, RecipeFile& file) {
  for (auto& section : sections())
    for (const auto& field : section.table.fields()) file.origins[field.key] = "default";
  for (const auto& [path, place] : reading.given) file.origins[path] = reading.report.at(place);
  for (const auto& [path, from] : derived) file.origins[path] = from;
}

RecipeFile read(const std::string& text, const std::string& name, const std::vector<Override>& overrides,
                RecipeUse use) {
  Report report(name);
  Node root = read_yaml(text, report);
  if (root.is_null()) {
    report.error({1, 1}, "the recipe is empty");
  } else if (root.kind != Node::Kind::map) {
    report.error(root.place, fmt::format("a recipe is a table of 'key: value' lines; this is {}",
                                         root.is_scalar() ? "text" : "a list"));
  }
  if (root.kind != Node::Kind::map) report.raise();

  RecipeFile file;
  file.path = name;
  file.text = text;
  apply_overrides(root, overrides, report);
  map_old_keys(root, report);
  load_plugins(root, report);
  Reading reading{report};
  read_recipe_map(root, file.recipe, reading);
  auto derived = fill_in(file.recipe, reading);
  check_rules(file.recipe, use, reading);
  file.problems = report.problems();

  collect_origins(reading, derived, file);
  file.warnings = report.warnings();
  file.missing = missing_files(file.recipe, reading);
  file.notices = std::move(report.notices);
  if (!reading.inert.empty())
    file.notices.push_back(
        fmt::format("no effect on CPUs: {} ('dml help KEY' gives the reason)", fmt::join(reading.inert, ", ")));
  for (const auto& [why, keys] : reading.unsupported)
    file.notices.push_back(fmt::format("not done: {}: {}", fmt::join(keys, ", "), why));
  return file;
}

PluginLoader& plugin_loader() {
  static PluginLoader loader = [](const std::string&) -> std::string {
    throw UserError("this program loads no plug-ins");
  };
  return loader;
}

}  // namespace

void load_plugins(const Node& root, Report& report) {
  const Node* plugins = root.find("plugins");
  if (!plugins) return;
  const std::vector<Node> one = plugins->is_scalar() ? std::vector<Node>{*plugins} : std::vector<Node>{};
  bool failed = false;
  for (const Node& plugin : plugins->is_scalar() ? one : plugins->items) try {
      if (plugin.is_scalar() && !plugin.text.empty())
        report.notice(fmt::format("plug-in loaded, its code runs with your rights: {}", plugin_loader()(plugin.text)));
    } catch (const UserError& error) {
      report.error(plugin.place, fmt::format("plug-in {}", error.what()));
      failed = true;
    }
  if (failed) report.raise();
}

namespace {

void leave_out_dropout(Recipe& recipe, Report& report, const char* with) {
  if (recipe.adapter.lora_dropout == 0) return;
  recipe.adapter.lora_dropout = 0;
  report.notice(fmt::format("lora_dropout is 0 with {}", with));
}

template <class Fill>
void fill_in_preference(Recipe& recipe, Fill& fill, Report& report) {
  PreferenceSection& p = recipe.preference;
  if (p.reward_model || p.process_reward_model) {
    recipe.model.task = p.reward_model ? ModelTask::reward : ModelTask::process_reward;
    fill("num_labels", p.num_labels, p.reward_model ? 1 : 2, p.reward_model ? "reward_model" : "process_reward_model");
    recipe.data.rows = p.reward_model ? RowKind::pairs : RowKind::steps;
    auto& saved = recipe.adapter.lora_modules_to_save;
    if (recipe.adapter.adapter != AdapterKind::none && std::ranges::find(saved, "score") == saved.end())
      saved.push_back("score");
    leave_out_dropout(recipe, report, "a reward model, as in TRL");
    return;
  }
  if (p.rl == Rl::none) return;
  if (p.rl == Rl::ipo) {
    p.rl = Rl::dpo;
    fill("dpo_loss_type", p.dpo_loss_type, std::vector<std::string>{"ipo"}, "rl");
  }
  if (p.rl == Rl::gdpo) {
    p.rl = Rl::grpo;
    fill("trl.multi_objective_aggregation", p.trl.multi_objective_aggregation, RewardAggregation::normalize_then_sum,
         "rl");
  }
  leave_out_dropout(recipe, report,
                    p.rl == Rl::grpo
                        ? "rl: grpo: with dropout, the trained model would differ from the model that samples"
                        : "rl, as in TRL: dropout would count as a difference from the reference");
  recipe.data.rows = p.rl == Rl::kto ? RowKind::labeled : p.rl == Rl::grpo ? RowKind::prompts : RowKind::pairs;
  if (p.rl == Rl::grpo) recipe.data.completion_len = p.trl.max_completion_length;
  for (auto* list : {&recipe.data.datasets, &recipe.data.test_datasets})
    for (DatasetEntry& entry : *list)
      if (entry.type.pre_tokenized()) entry.type.name = "passthrough";
}

// Appends the revision to a name of the Hub; local folders and files have none.
void add_revision(std::string& name, const std::optional<std::string>& revision) {
  std::error_code unknown;
  if (revision && name.find('@') == name.npos && !std::filesystem::exists(name, unknown) && parse_hub_name(name))
    name += "@" + *revision;
}

void add_revisions(Recipe& recipe) {
  add_revision(recipe.model.base_model, recipe.model.revision_of_model);
  for (auto* list : {&recipe.data.datasets, &recipe.data.test_datasets, &recipe.data.pretraining_dataset})
    for (DatasetEntry& entry : *list) add_revision(entry.path, entry.revision);
}

}  // namespace

std::map<std::string, std::string> fill_in(Recipe& recipe, const Reading& reading) {
  std::map<std::string, std::string> derived;
  auto fill = [&](const std::string& key, auto& to, const auto& value, const char* from) {
    if (reading.given.contains(key)) return;
    to = value;
    derived[key] = fmt::format("from {}", from);
  };
  // A number of evaluations or checkpoints that means "none" selects the strategy `no`, unless the recipe sets the
  // strategy.
  auto none = [&](const char* strategy, IntervalStrategy& cadence, std::initializer_list<const char*> settings) {
    const char* off = nullptr;
    for (const char* key : settings) {
      if (reading.off.contains(key)) off = key;
      else if (reading.given.contains(key)) return;
    }
    if (off && cadence == IntervalStrategy::automatic) fill(strategy, cadence, IntervalStrategy::never, off);
  };
  none("eval_strategy", recipe.train.eval_strategy, {"eval_steps", "evals_per_epoch"});
  none("save_strategy", recipe.train.save_strategy, {"save_steps", "saves_per_epoch"});
  if (recipe.train.eval_strategy == IntervalStrategy::never)
    fill("eval_on_start", recipe.train.eval_on_start, false, "eval_strategy");
  if (recipe.adapter.adapter == AdapterKind::qlora) fill("load_in_4bit", recipe.adapter.load_in_4bit, true, "adapter");
  if (!recipe.data.dataset_prepared_path.empty())
    fill("quantized_cache_path", recipe.adapter.quantized_cache_path, recipe.data.dataset_prepared_path + "/quantized",
         "dataset_prepared_path");
  fill_in_preference(recipe, fill, reading.report);
  add_revisions(recipe);
  if (recipe.generation.generation_top_k == -1) recipe.generation.generation_top_k = 0;
  auto& targets = recipe.adapter.lora_target_modules;
  if (targets.regex == "all-linear") {  // PEFT's keyword
    targets.regex.clear();
    fill("lora_target_linear", recipe.adapter.lora_target_linear, true, "lora_target_modules");
  }
  if (!recipe.data.pretraining_dataset.empty())
    fill("sample_packing", recipe.data.sample_packing, true, "pretraining_dataset");
  fill("eval_sample_packing", recipe.data.eval_sample_packing, recipe.data.sample_packing, "sample_packing");
  fill("eval_batch_size", recipe.train.eval_batch_size, recipe.train.micro_batch_size, "micro_batch_size");
  if (!recipe.train.batch_size && !recipe.train.gradient_accumulation_steps)
    recipe.train.gradient_accumulation_steps = 1;
  if (recipe.templates.chat_template_jinja)
    fill("chat_template", recipe.templates.chat_template, "jinja", "chat_template_jinja");
  auto entries = [&](const std::string& list, std::vector<DatasetEntry>& all) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].chat_template_jinja)
        fill(fmt::format("{}.{}.chat_template", list, i), all[i].chat_template, "jinja", "chat_template_jinja");
  };
  entries("datasets", recipe.data.datasets);
  entries("test_datasets", recipe.data.test_datasets);
  for (std::size_t i = 0; i < recipe.data.pretraining_dataset.size(); ++i) {
    DatasetEntry& entry = recipe.data.pretraining_dataset[i];
    const std::string path = fmt::format("pretraining_dataset.{}.", i);
    if (entry.type.pre_tokenized()) fill(path + "type", entry.type.name, "pretrain", "pretraining_dataset");
  }
  return derived;
}

}  // namespace recipe

void set_plugin_loader(PluginLoader loader) { recipe::plugin_loader() = std::move(loader); }

Problem RecipeFile::located(Problem problem) const {
  if (problem.key.empty() || !problem.place.empty()) return problem;
  problem.place = path;
  for (std::string key = problem.key; !key.empty(); key.resize(key.rfind('.') == key.npos ? 0 : key.rfind('.'))) {
    auto found = origins.find(key);
    if (found != origins.end() && found->second.starts_with("from ")) found = origins.find(found->second.substr(5));
    if (found == origins.end() || found->second == "default" || found->second.starts_with("from ")) continue;
    problem.place = found->second;
    break;
  }
  return problem;
}

namespace {

// A model is easily given in the recipe's place, since some commands take one as --base-model.
void refuse_other_kinds(const std::string& path) {
  std::error_code unreadable;
  const bool directory = std::filesystem::is_directory(path, unreadable);
  if (path.ends_with(".gguf") ||
      (directory && file_exists(path + "/config.json") && !file_exists(path + "/recipe.yml")))
    throw UserError(
        "{}: is a model, not a recipe. A recipe names it as base_model; dml infer, serve and evaluate also take it as "
        "--base-model {}",
        path, path);
  if (directory) throw UserError("{}: is a directory; name the recipe file in it", path);
}

}  // namespace

RecipeFile examine_recipe(const std::string& path, const std::vector<Override>& overrides, RecipeUse use) {
  refuse_other_kinds(path);
  return recipe::read(read_file(path, recipe::kMaxRecipeBytes), path, overrides, use);
}

namespace {

RecipeFile without_problems(RecipeFile file) {
  if (!file.problems.empty()) throw UserError(std::move(file.problems));
  return file;
}

}  // namespace

RecipeFile load_recipe(const std::string& path, const std::vector<Override>& overrides, RecipeUse use) {
  return without_problems(examine_recipe(path, overrides, use));
}

RecipeFile read_recipe(const std::string& text, const std::string& name, const std::vector<Override>& overrides,
                       RecipeUse use) {
  return without_problems(recipe::read(text, name, overrides, use));
}

}  // namespace dml
