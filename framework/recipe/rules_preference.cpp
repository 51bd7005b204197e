// Rules of the keys about preferences.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "recipe/rule_report.h"
#include "recipe/spellings.h"

namespace dml::recipe {
namespace {

// The values of `rl` that use each key.
const std::map<std::string, std::vector<Rl>>& readers() {
  static const std::map<std::string, std::vector<Rl>> all = {
      {"rl_beta", {Rl::dpo, Rl::orpo, Rl::simpo, Rl::cpo, Rl::kto, Rl::grpo}},
      {"dpo_loss_type", {Rl::dpo}},
      {"dpo_loss_weights", {Rl::dpo}},
      {"dpo_label_smoothing", {Rl::dpo, Rl::simpo, Rl::cpo}},
      {"f_divergence_type", {Rl::dpo}},
      {"f_alpha_divergence_coef", {Rl::dpo}},
      {"precompute_ref_log_probs", {Rl::dpo, Rl::kto}},
      {"ld_alpha", {Rl::dpo}},
      {"dpo_use_weighting", {Rl::dpo}},
      {"orpo_alpha", {Rl::orpo}},
      {"simpo_gamma", {Rl::simpo}},
      {"cpo_loss_type", {Rl::cpo}},
      {"cpo_alpha", {Rl::cpo, Rl::simpo}},
      {"kto_loss_type", {Rl::kto}},
      {"kto_desirable_weight", {Rl::kto}},
      {"kto_undesirable_weight", {Rl::kto}},
  };
  return all;
}

void check_idle(const Recipe& recipe, RuleReport& rules) {
  static const PreferenceSection fresh;
  static const Section section = preference_section();
  for (const Field& field : section.table.fields()) {
    auto found = readers().find(field.key);
    if (found == readers().end() || !rules.given(field.key) || field.write(&recipe.preference) == field.write(&fresh))
      continue;
    if (recipe.preference.rl == Rl::none)
      rules.warning(field.key, fmt::format("'{}' has no effect without rl", field.key));
    else if (std::ranges::find(found->second, recipe.preference.rl) == found->second.end())
      rules.warning(field.key, fmt::format("'{}' has no effect with {}", field.key, rules.cite("rl")));
  }
}

void check_losses(const PreferenceSection& p, RuleReport& rules) {
  const auto& types = p.dpo_loss_type;
  if (types.empty())
    rules.error("dpo_loss_type", "'dpo_loss_type' is empty; write for example dpo_loss_type: [sigmoid]");
  if (!p.dpo_loss_weights.empty() && p.dpo_loss_weights.size() != types.size())
    rules.error("dpo_loss_weights", fmt::format("'dpo_loss_weights' has {} weights, {} has {} losses",
                                                p.dpo_loss_weights.size(), rules.cite("dpo_loss_type"), types.size()));
  if (!p.dpo_loss_weights.empty() && std::ranges::all_of(p.dpo_loss_weights, [](double w) { return w == 0; }))
    rules.error("dpo_loss_weights", "'dpo_loss_weights' are all 0, so nothing would be trained; set one above 0");
  for (const std::string& type : types) {
    const auto works_with = [&](const char* key) { return has_effect(key, "dpo_loss_type", type); };
    const Choice* row = choice_of("dpo_loss_type", type);
    if (row && row->needs == "dpo_label_smoothing" && p.dpo_label_smoothing == 0)
      rules.error("dpo_loss_type",
                  fmt::format("'dpo_loss_type: {}' needs dpo_label_smoothing above 0, for example 1e-3", type));
    if (p.dpo_use_weighting && !works_with("dpo_use_weighting"))
      rules.error("dpo_use_weighting",
                  fmt::format("'dpo_use_weighting' does not work with {} in {}, which sorts the pairs of a step", type,
                              rules.cite("dpo_loss_type")));
    if (p.f_divergence_type != FDivergence::reverse_kl && !works_with("f_divergence_type"))
      rules.error("f_divergence_type",
                  fmt::format("'f_divergence_type: {}' does not work with {} in {}", spelling_of(p.f_divergence_type),
                              type, rules.cite("dpo_loss_type")));
  }
  if (p.f_divergence_type == FDivergence::alpha_divergence && p.f_alpha_divergence_coef == 1)
    rules.error("f_alpha_divergence_coef",
                "'f_alpha_divergence_coef: 1' is reverse_kl; set f_divergence_type: reverse_kl");
}

// Rules of sync_ref_model: a reference that follows the trained weights.
void check_moving_reference(const Recipe& recipe, RuleReport& rules) {
  static const TrlSettings fresh;
  const TrlSettings& trl = recipe.preference.trl;
  if (!trl.sync_ref_model) {
    for (auto [key, changed] :
         {std::pair{"trl.ref_model_sync_steps", trl.ref_model_sync_steps != fresh.ref_model_sync_steps},
          {"trl.ref_model_mixup_alpha", trl.ref_model_mixup_alpha != fresh.ref_model_mixup_alpha}})
      if (changed) rules.warning(key, fmt::format("'{}' has no effect without trl.sync_ref_model", key));
    return;
  }
  auto refuse = [&](const char* key, bool set, const std::string& why) {
    if (set)
      rules.error("trl.sync_ref_model",
                  fmt::format("'trl.sync_ref_model' does not work with {}: {}", rules.cite(key), why));
  };
  refuse("rl", recipe.preference.rl == Rl::grpo && recipe.preference.beta() == 0,
         "there is no reference; set trl.beta above 0");
  refuse("ema_decay", recipe.optim.ema_decay.has_value(), "both keep a second set of weights");
  refuse("bf16_weights", recipe.optim.bf16_weights != Bf16Weights::off, "it would round the reference");
  refuse("relora", recipe.adapter.relora, "a restart begins the adapter anew");
  if (rules.given("precompute_ref_log_probs") && recipe.preference.precompute_ref_log_probs)
    rules.warning(
        "precompute_ref_log_probs",
        "'precompute_ref_log_probs' has no effect with trl.sync_ref_model: the reference changes during the run");
}

void check_reward_model(const Recipe& recipe, RuleReport& rules) {
  const PreferenceSection& p = recipe.preference;
  const char* key = p.reward_model ? "reward_model" : "process_reward_model";
  if (p.reward_model && p.process_reward_model) rules.exclusive("reward_model", "process_reward_model");
  if (p.rl != Rl::none) rules.error(key, fmt::format("'{}' does not work with {}", key, rules.cite("rl")));
  if (p.num_labels && *p.num_labels != (p.reward_model ? 1 : 2))
    rules.error("num_labels", fmt::format("'num_labels' must be {} with {}, is {}", p.reward_model ? 1 : 2,
                                          rules.cite(key), *p.num_labels));
  for (const auto& [other, asked] : {std::pair{"generate_samples", recipe.generation.generate_samples},
                                     {"evals", !recipe.evaluation.evals.empty()},
                                     {"relora", recipe.adapter.relora},
                                     {"label_smoothing_factor", recipe.train.label_smoothing_factor > 0},
                                     {"z_loss", recipe.train.z_loss > 0}})
    if (asked)
      rules.error(other, fmt::format("'{}' does not work with {}, whose model has no logits over the vocabulary", other,
                                     rules.cite(key)));
}

// Rules of the loss weights of rows and messages.
void check_weights(const Recipe& recipe, RuleReport& rules) {
  const PreferenceSection& p = recipe.preference;
  for (auto [list, entries] :
       {std::pair{"datasets", &recipe.data.datasets}, std::pair{"test_datasets", &recipe.data.test_datasets}})
    for (std::size_t i = 0; i < entries->size(); ++i) {
      const DatasetEntry& e = (*entries)[i];
      const std::string key = fmt::format("{}.{}.", list, i);
      if (e.message_field_weight && recipe.data.rows != RowKind::text)
        rules.error(key + "message_field_weight",
                    "'message_field_weight' does not work with rl and reward models, whose losses are of whole "
                    "answers; field_weight gives rows a weight");
      if (e.field_weight && p.rl == Rl::grpo)
        rules.warning(key + "field_weight",
                      fmt::format("'{}field_weight' has no effect with {}, except that rows of weight 0 are dropped",
                                  key, rules.cite("rl")));
      for (const auto& [other, asked] : {std::pair{"label_smoothing_factor", recipe.train.label_smoothing_factor > 0},
                                         {"z_loss", recipe.train.z_loss > 0}})
        if ((e.field_weight || e.message_field_weight) && asked)
          rules.error(other, fmt::format("'{}' does not work with weights of rows or messages", other));
      for (const std::string& type : p.dpo_loss_type)
        if (e.field_weight && p.rl == Rl::dpo && !has_effect("field_weight", "dpo_loss_type", type))
          rules.error(key + "field_weight",
                      fmt::format("'field_weight' does not work with {} in {}, which sorts the pairs of a step", type,
                                  rules.cite("dpo_loss_type")));
    }
}

// The micro-batches of preferences hold as many examples as fit, with or without sample_packing.
void check_packing(const Recipe& recipe, RuleReport& rules) {
  const PreferenceSection& p = recipe.preference;
  if (!recipe.data.sample_packing || recipe.data.rows == RowKind::text || p.rl == Rl::grpo) return;
  const char* key = p.reward_model ? "reward_model" : p.process_reward_model ? "process_reward_model" : "rl";
  rules.warning("sample_packing",
                fmt::format("'sample_packing' has no effect on training with {}, which always packs the examples of a "
                            "step",
                            rules.cite(key)));
}

}  // namespace

void check_preference(const Recipe& recipe, RuleReport& rules) {
  const PreferenceSection& p = recipe.preference;
  if (rules.is_bad("rl")) return;
  check_idle(recipe, rules);
  check_rewards(recipe, rules);
  check_weights(recipe, rules);
  check_packing(recipe, rules);
  if (p.reward_model || p.process_reward_model) return check_reward_model(recipe, rules);
  if (p.rl == Rl::none) return;
  rules.exclusive("rl_beta", "trl.beta");
  if (p.rl == Rl::orpo)
    for (const char* other : {"rl_beta", "trl.beta"}) rules.exclusive("orpo_alpha", other);
  if (p.rl == Rl::dpo) check_losses(p, rules);
  if (p.rl == Rl::dpo || p.rl == Rl::grpo) check_moving_reference(recipe, rules);
  if (!recipe.data.pretraining_dataset.empty())
    rules.error(
        "pretraining_dataset",
        fmt::format("'pretraining_dataset' holds no preferences, which {} needs; use datasets", rules.cite("rl")));
  if (recipe.data.excess_length_strategy == ExcessLength::split_turns)
    rules.error("excess_length_strategy",
                fmt::format("'excess_length_strategy: split_turns' does not work with {}; use drop, truncate or raise",
                            rules.cite("rl")));
  if (recipe.data.train_on_inputs)
    rules.warning("train_on_inputs", fmt::format("'train_on_inputs' has no effect with {}", rules.cite("rl")));
  if (recipe.train.neftune_noise_alpha > 0)
    rules.error(
        "neftune_noise_alpha",
        fmt::format("'neftune_noise_alpha' does not work with {}: noise would count as a difference from the reference",
                    rules.cite("rl")));
  for (auto [key, value] :
       {std::pair{"label_smoothing_factor", recipe.train.label_smoothing_factor}, {"z_loss", recipe.train.z_loss}})
    if (value > 0)
      rules.error(key, fmt::format("'{}' does not work with {}, whose loss is not that of single tokens", key,
                                   rules.cite("rl")));
  if (p.mismatches_answers() && recipe.train.batch_size.value_or(2) < 2)
    rules.error("batch_size", "'batch_size' of 1 does not work with rl: kto, which compares answers of different rows");
  if (p.mismatches_answers() && !recipe.train.batch_size &&
      recipe.train.micro_batch_size * recipe.train.gradient_accumulation_steps.value_or(1) < 2)
    rules.warning("micro_batch_size",
                  "rl: kto compares answers of different rows: one rank needs 'micro_batch_size' or "
                  "'gradient_accumulation_steps' of at least 2");
  if (p.rl == Rl::simpo && p.beta() < 1)
    rules.warning("rl",
                  fmt::format("rl: simpo with rl_beta of {} learns next to nothing; 2 to 10 are usual", p.beta()));
  if (p.rl == Rl::simpo && !rules.given("cpo_alpha"))
    rules.warning("rl",
                  "rl: simpo adds cross-entropy of the chosen answers, as Axolotl does; for SimPO as published, set "
                  "cpo_alpha: 0");
  const bool adapter = recipe.adapter.adapter != AdapterKind::none;
  const double high = adapter ? 5e-5 : 5e-6;
  if (recipe.optim.learning_rate > high && !recipe.model.base_model.empty())
    rules.warning(
        "learning_rate",
        fmt::format("'learning_rate' of {} is high for {}: above {}, training often diverges within a hundred steps",
                    recipe.optim.learning_rate, rules.cite("rl"), high));
}

}  // namespace dml::recipe
