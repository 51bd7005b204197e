// Settings that have an effect only beside another one.
#include <algorithm>

#include "recipe/rule_report.h"

namespace dml::recipe {
namespace {

struct IdleKey {
  const char *key, *needs;
  bool (*idle)(const Recipe&);
};

bool adapts(const Recipe& r) { return r.adapter.adapter != AdapterKind::none; }
bool freezes_embedding_and_head(const Recipe& r) {
  return r.adapter.creates_adapter() && r.adapter.lora_modules_to_save.empty() &&
         r.adapter.peft_trainable_token_indices.empty();
}
bool writes_no_wandb(const Recipe& r) { return !r.log.use_wandb && !r.log.wandb_project; }
bool writes_no_mlflow(const Recipe& r) { return !r.log.use_mlflow && !r.log.mlflow_experiment_name; }
bool pushes_nothing(const Recipe& r) { return !r.log.hub_model_id; }

// Whether neither the rows nor later prompts go through the chat template of the recipe.
bool applies_no_chat_template(const Recipe& r) {
  const DataSection& d = r.data;
  const auto may_apply = [](const DatasetEntry& e) { return e.type.pre_tokenized() || e.type.applies_chat_template(); };
  return d.rows == RowKind::text && !d.datasets.empty() && std::ranges::none_of(d.datasets, may_apply) &&
         std::ranges::none_of(d.test_datasets, may_apply);
}

// Keys of an adapter are left to check_adapter where there is none.
constexpr IdleKey kIdleKeys[] = {
    {"loftq_iter", "peft_init_lora_weights: loftq",
     [](const Recipe& r) {
       return r.adapter.creates_adapter() && r.adapter.peft_init_lora_weights != LoraInit::loftq;
     }},
    {"peft_ensure_weight_tying", "lora_modules_to_save",
     [](const Recipe& r) { return r.adapter.creates_adapter() && r.adapter.lora_modules_to_save.empty(); }},
    {"loraplus_lr_embedding", "loraplus_lr_ratio",
     [](const Recipe& r) { return adapts(r) && !r.adapter.loraplus_lr_ratio; }},
    {"quantized_cache_path", "load_in_4bit or load_in_8bit",
     [](const Recipe& r) { return adapts(r) && !r.adapter.load_in_4bit && !r.adapter.load_in_8bit; }},
    {"relora_prune_ratio", "relora", [](const Recipe& r) { return adapts(r) && !r.adapter.relora; }},
    {"relora_prune_method", "relora", [](const Recipe& r) { return adapts(r) && !r.adapter.relora; }},
    {"embedding_lr", "lora_modules_to_save or peft_trainable_token_indices", freezes_embedding_and_head},
    {"embedding_lr_scale", "lora_modules_to_save or peft_trainable_token_indices", freezes_embedding_and_head},
    {"chat_template", "a dataset of type: chat_template", applies_no_chat_template},
    {"chat_template_jinja", "a dataset of type: chat_template", applies_no_chat_template},
    {"chat_template_kwargs", "a dataset of type: chat_template", applies_no_chat_template},
    {"loss_watchdog_patience", "loss_watchdog_threshold",
     [](const Recipe& r) { return !r.train.loss_watchdog_threshold; }},
    {"center_rewards_coefficient", "reward_model", [](const Recipe& r) { return !r.preference.reward_model; }},
    {"num_generation_samples", "generate_samples", [](const Recipe& r) { return !r.generation.generate_samples; }},
    {"generation_prompt_ratio", "generate_samples", [](const Recipe& r) { return !r.generation.generate_samples; }},
    {"mlflow_tracking_uri", "use_mlflow or mlflow_experiment_name", writes_no_mlflow},
    {"mlflow_run_name", "use_mlflow or mlflow_experiment_name", writes_no_mlflow},
    {"wandb_entity", "use_wandb or wandb_project", writes_no_wandb},
    {"wandb_name", "use_wandb or wandb_project", writes_no_wandb},
    {"wandb_run_id", "use_wandb or wandb_project", writes_no_wandb},
    {"hub_strategy", "hub_model_id", pushes_nothing},
    {"hub_revision", "hub_model_id", pushes_nothing},
    {"hub_private_repo", "hub_model_id", pushes_nothing},
};

}  // namespace

void check_idle_keys(const Recipe& recipe, RuleReport& rules) {
  for (const auto& [key, needs, idle] : kIdleKeys)
    if (idle(recipe) && changes(recipe, key, rules))
      rules.warning(key, fmt::format("'{}' has no effect without {}", key, needs));
}

}  // namespace dml::recipe
