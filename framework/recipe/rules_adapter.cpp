// Rules of the keys about adapters.
#include <fmt/format.h>

#include <set>

#include "core/error.h"
#include "core/regex.h"
#include "recipe/row_pattern.h"
#include "recipe/rule_report.h"
#include "recipe/stages.h"

namespace dml::recipe {
namespace {

void check_regex(const std::string& key, const std::string& text, RuleReport& rules) {
  if (auto why = Regex::problem(text); !why.empty())
    rules.error(key, fmt::format("'{}' is not a regular expression: '{}': {}", key, shown(text), why));
}

// A resolved recipe sets every key, so one with its default counts as unset.
std::vector<std::string> changed_keys(const AdapterSection& a, const RuleReport& rules) {
  static const AdapterSection fresh;
  static const Section section = adapter_section();
  std::vector<std::string> out;
  for (const Field& field : section.table.fields())
    if (rules.given(field.key) && field.write(&a) != field.write(&fresh)) out.push_back(field.key);
  return out;
}

// An adapter that is trained further keeps its shape.
void check_continued_adapter(const AdapterSection& a, RuleReport& rules) {
  static const std::set<std::string> of_adapter{"lora_r",
                                                "lora_alpha",
                                                "lora_target_modules",
                                                "lora_target_linear",
                                                "lora_target_parameters",
                                                "lora_modules_to_save",
                                                "lora_rank_pattern",
                                                "lora_alpha_pattern",
                                                "lora_fan_in_fan_out",
                                                "loftq_iter",
                                                "peft_use_dora",
                                                "peft_use_rslora",
                                                "peft_init_lora_weights",
                                                "peft_layers_to_transform",
                                                "peft_layers_pattern",
                                                "peft_trainable_token_indices",
                                                "peft_ensure_weight_tying"};
  std::vector<std::string> ignored = changed_keys(a, rules);
  std::erase_if(ignored, [&](const std::string& key) { return !of_adapter.contains(key); });
  if (!ignored.empty())
    rules.warning(ignored.front(),
                  fmt::format("{} {} no effect with {}: the adapter keeps its own settings", fmt::join(ignored, ", "),
                              ignored.size() == 1 ? "has" : "have", rules.cite("lora_model_dir")));
}

}  // namespace

void check_adapter(const Recipe& recipe, RuleReport& rules) {
  const auto& a = recipe.adapter;
  if (rules.is_bad("adapter")) return;
  const bool lora = a.adapter != AdapterKind::none;
  if (a.adapter == AdapterKind::qlora) {
    if (!a.load_in_4bit)
      rules.error("load_in_4bit",
                  fmt::format("'load_in_4bit: false' contradicts {}: qlora; set adapter: lora for an unquantized base",
                              rules.cite("adapter")));
    if (a.load_in_8bit)
      rules.error("load_in_8bit",
                  fmt::format("'load_in_8bit' contradicts {}: qlora has a 4-bit base", rules.cite("adapter")));
  } else if (a.load_in_4bit && a.load_in_8bit) {
    rules.exclusive("load_in_4bit", "load_in_8bit");
  }
  for (const auto& [key, wanted] : {std::pair{"load_in_4bit", a.load_in_4bit}, {"load_in_8bit", a.load_in_8bit}})
    if (!lora && wanted)
      rules.error(
          key,
          fmt::format("'{}' needs an adapter, because quantized weights cannot be trained; set adapter: lora or qlora",
                      key));
  if (lora && !a.lora_target_linear && a.lora_target_modules.empty() && a.lora_target_parameters.empty() &&
      !a.lora_model_dir)
    rules.error("adapter", "'adapter' needs target modules: set lora_target_linear: true, or lora_target_modules");
  for (const std::string& key : lora ? std::vector<std::string>{} : changed_keys(a, rules))
    if (key != "adapter" && key != "unfrozen_parameters" && !key.starts_with("load_in_"))
      rules.warning(key, fmt::format("'{}' has no effect without an adapter", key));
  if (lora && a.lora_model_dir) check_continued_adapter(a, rules);
  if (a.peft_init_lora_weights == LoraInit::loftq && (a.load_in_4bit || a.load_in_8bit))
    rules.error("peft_init_lora_weights",
                "'peft_init_lora_weights: loftq' quantizes the base itself; remove load_in_4bit and load_in_8bit, and "
                "set adapter: lora");
  if (!a.lora_target_modules.regex.empty()) check_regex("lora_target_modules", a.lora_target_modules.regex, rules);
  for (const auto& [pattern, rank] : a.lora_rank_pattern) check_regex("lora_rank_pattern", pattern, rules);
  for (const auto& [pattern, alpha] : a.lora_alpha_pattern) check_regex("lora_alpha_pattern", pattern, rules);
  for (const auto& pattern : a.unfrozen_parameters) try {
      parse_row_pattern(pattern);
    } catch (const UserError& e) {
      rules.error("unfrozen_parameters", fmt::format("'unfrozen_parameters': {}", e.what()));
    }
  if (!a.peft_layers_pattern.empty() && a.peft_layers_to_transform.empty())
    rules.error("peft_layers_pattern", "'peft_layers_pattern' needs peft_layers_to_transform");
  if (!a.peft_layers_to_transform.empty() && !a.lora_target_modules.regex.empty())
    rules.error("peft_layers_to_transform", fmt::format("'peft_layers_to_transform' needs a list of names: {} is a "
                                                        "regular expression, which can name the layers itself",
                                                        rules.cite("lora_target_modules")));
  if (lora && !a.unfrozen_parameters.empty())
    rules.error("unfrozen_parameters",
                fmt::format("'unfrozen_parameters' does not work with {}; lora_modules_to_save trains whole modules "
                            "beside the adapter",
                            rules.cite("adapter")));
  else if (!a.peft_layers_to_transform.empty() && !a.unfrozen_parameters.empty())
    rules.exclusive("peft_layers_to_transform", "unfrozen_parameters");
  if (a.loraplus_lr_ratio && !recipe.optim.lr_groups.empty()) rules.exclusive("loraplus_lr_ratio", "lr_groups");
}

void check_relora(const Recipe& recipe, RuleReport& rules) {
  const auto& a = recipe.adapter;
  if (!a.relora) return;
  auto reject = [&](const std::string& text) { rules.error("relora", "'relora' " + text); };
  if (a.adapter == AdapterKind::none) reject("needs an adapter; set adapter: lora");
  if (!a.lora_target_parameters.empty()) reject("does not work with lora_target_parameters");
  if (a.load_in_4bit || a.load_in_8bit)
    reject(
        fmt::format("needs a base that is not quantized: rounding to {} would lose what is merged; set adapter: lora",
                    a.load_in_4bit ? "4-bit" : "8-bit"));
  if (!recipe.optim.jagged_restart_steps) reject("needs jagged_restart_steps, the number of steps between merges");
  switch (a.peft_init_lora_weights) {
    case LoraInit::pissa:
    case LoraInit::olora:
    case LoraInit::loftq:
    case LoraInit::random:
      reject(fmt::format("restarts the adapter with B = 0: {} must be true or gaussian",
                         rules.cite("peft_init_lora_weights")));
      break;
    default:
      break;
  }
  if (recipe.optim.ema_decay) reject("restarts adapters, so 'ema_decay' has nothing to average; remove one of them");
  if (recipe.optim.bf16_weights != Bf16Weights::off)
    reject("adds adapters to a float32 base: 'bf16_weights' has no effect on it; remove one of them");
  if (a.relora_prune_method != ReloraPrune::reset &&
      !has_effect("relora_prune_method", "optimizer", recipe.optim.optimizer))
    reject(
        fmt::format("with {}: {} needs relora_prune_method: reset", rules.cite("optimizer"), recipe.optim.optimizer));
  if (recipe.train.prepack_weights == true)
    reject(fmt::format("makes packed copies of the base outdated; remove {}", rules.cite("prepack_weights")));
  if (recipe.distribution.shard_frozen_weights == true)
    reject(fmt::format("needs the full base on every rank; remove {}", rules.cite("shard_frozen_weights")));
}

}  // namespace dml::recipe
