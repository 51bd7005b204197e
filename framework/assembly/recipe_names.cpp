#include "assembly/recipe_names.h"

#include "assembly/eval_metrics.h"
#include "dist/strategy.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "plugin/loader.h"
#include "recipe/recipe.h"
#include "train/objective/pair_loss.h"
#include "train/objective_rows.h"

namespace dml {
namespace {

// The settings of a recipe that this optimizer reads.
std::vector<std::string> keys_of(const OptimizerKind& kind) {
  std::vector<std::string> keys;
  for (const OptimizerArgument& a : kind.arguments)
    for (const auto& [key, setting] : kOptimizerSettings)
      if (a.from == setting && key != "weight_decay")
        keys.emplace_back(key);  // every optimizer may be given weight_decay
  if (kind.by_element) keys.push_back("relora_prune_method");
  if (kind.takes_targets) keys.push_back("optim_target_modules");
  return keys;
}

void name_pair_losses() {
  std::vector<Choice> with_reference, of_cpo;
  for (const PairLossRow& row : pair_losses()) {
    Choice& own = with_reference.emplace_back(Choice{row.name, row.name});
    if (!row.only_reverse_kl) own.keys.push_back("f_divergence_type");
    if (!row.compares_pairs) own.keys.insert(own.keys.end(), {"dpo_use_weighting", "field_weight"});
    if (row.needs_smoothing) own.needs = "dpo_label_smoothing";
  }
  with_reference.push_back({"sft", "sft", "", {"f_divergence_type", "dpo_use_weighting", "field_weight"}});
  set_choices("dpo_loss_type", std::move(with_reference));
  for (const PairLossRow& row : reference_free_losses())
    if (!row.is_method) of_cpo.push_back({row.name, row.name});
  set_choices("cpo_loss_type", std::move(of_cpo));
}

}  // namespace

void enable_recipe_plugins() {
  set_plugin_loader([](const std::string& path) {
    std::string loaded = load_plugin(path);
    name_choices();
    return loaded;
  });
}

void name_choices() {
  std::vector<Choice> names;
  for (const auto& row : optimizers().rows()) {
    Choice own{row.name, row.name, row.make.notice, keys_of(row.make)};
    names.push_back(own);
    for (const auto& other : row.make.spellings)
      names.push_back({other.name, row.name, other.notice.empty() ? row.make.notice : other.notice, own.keys});
  }
  set_choices("optimizer", std::move(names));
  std::vector<Choice> shapes;
  for (const auto& row : schedules().rows()) shapes.push_back({row.name, row.name, "", row.make.keys});
  set_choices("lr_scheduler", std::move(shapes));
  std::vector<Choice> distributions;
  for (const auto& row : strategies().rows()) distributions.push_back({row.name, row.name, "", row.make.keys});
  set_choices("distribution", std::move(distributions));
  std::vector<Choice> kinds;
  for (const auto& row : objectives().rows())
    kinds.push_back({.spelling = row.name, .value = row.name, .flags = row.make.flags});
  set_choices("objective", std::move(kinds));
  std::vector<Choice> metrics;
  for (const auto& row : eval_metrics().rows()) metrics.push_back({row.name, row.name});
  set_choices("eval_metrics", std::move(metrics));
  name_pair_losses();
}

}  // namespace dml
