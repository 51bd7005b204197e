// Fields of the section about training on preferences.
#include "recipe/codecs.h"

namespace dml::recipe {
namespace {

void add_dpo(Table& t) {
  using S = PreferenceSection;
  t.add(
      "dpo_loss_type", &S::dpo_loss_type,
      "dpo: loss of a pair; several are added up with dpo_loss_weights. sft adds cross-entropy of the chosen answers.",
      {.example = "[sigmoid, sft]"});
  t.add("dpo_loss_weights", &S::dpo_loss_weights, "dpo: weight of each loss in dpo_loss_type.",
        {.min = 0, .max = 1e6, .example = "[1.0, 0.2]", .unset = "1 for each"});
  t.add("dpo_label_smoothing", &S::dpo_label_smoothing,
        "Share of the preferences that is assumed to be wrong; used by sigmoid, exo_pair, robust, aot, simpo and cpo.",
        {.min = 0, .max = 0.499999, .example = "0.1"});
  t.add("f_divergence_type", &S::f_divergence_type, "dpo: divergence from the reference that the loss penalizes.",
        {.example = "js_divergence"});
  t.add("f_alpha_divergence_coef", &S::f_alpha_divergence_coef, "dpo: α of alpha_divergence.",
        {.min = 0, .max = 10, .above = true, .example = "0.5"});
  t.add("precompute_ref_log_probs", &S::precompute_ref_log_probs,
        "dpo, kto: compute the reference's log-probabilities once, before the first step, and store them with the "
        "prepared data. false: in every step, by a pass without the adapter; where that is not the reference (full "
        "fine-tuning, lora_model_dir, modules trained in full, initial values with B ≠ 0) they are computed before the "
        "first step all the same.",
        {.example = "false"});
  t.add("ld_alpha", &S::ld_alpha,
        "dpo: weight of the tokens beyond the length of the shorter answer of a pair (LD-DPO); 1 is plain DPO.",
        {.min = 0, .max = 1, .example = "0.5", .unset = "1"});
  t.add("dpo_use_weighting", &S::dpo_use_weighting,
        "dpo: weigh each pair by how likely the model itself is to write its answers (WPO): exp of the mean over the "
        "tokens of log p − log Σ p², of both answers.",
        {.aliases = {"use_weighting"}, .example = "true"});
}

void add_reward_models(Table& t) {
  using S = PreferenceSection;
  t.add("reward_model", &S::reward_model,
        "Train a reward model on pairs (Bradley-Terry): the head gives one number for a text. The result is a model "
        "for sequence classification, with score.weight.",
        {.example = "true"});
  t.add("process_reward_model", &S::process_reward_model,
        "Train a model that judges the steps of an answer (type: stepwise_supervised). The result is a model for token "
        "classification.",
        {.example = "true"});
  t.add("num_labels", &S::num_labels, "Outputs of the head: 1 with reward_model, 2 with process_reward_model.",
        {.min = 1, .max = 2, .example = "1", .unset = "as the kind of model needs"});
  t.add("center_rewards_coefficient", &S::center_rewards_coefficient,
        "reward_model: weight of the squared sum of a pair's rewards, which keeps them around 0.",
        {.min = 0, .max = 1e6, .example = "0.01"});
}

}  // namespace

Section preference_section() {
  using S = PreferenceSection;
  Table t(
      "Preferences",
      "Learning from answers that people compared or rated, or that programs rate, instead of imitating all of them.");
  t.defaults<S>();
  t.add("rl", &S::rl,
        "Method: dpo (pairs, against the model at the start), orpo, simpo, cpo (pairs, without a reference), kto "
        "(single answers with a label), grpo (answers of the model itself, with rewards).",
        {.example = "dpo"});
  t.add("rl_beta", &S::rl_beta,
        "β: larger values keep the model closer to the reference. For simpo, typically 2 to 10.",
        {.min = 0,
         .max = 1e6,
         .above = true,
         .aliases = {"dpo_beta"},
         .example = "0.1",
         .unset = "orpo_alpha, else 0.1"});
  add_dpo(t);
  t.add("orpo_alpha", &S::orpo_alpha, "orpo: weight of the odds ratio; another name of rl_beta.",
        {.min = 0, .max = 1e6, .above = true, .example = "0.1", .unset = "rl_beta"});
  t.add("simpo_gamma", &S::simpo_gamma, "simpo: margin between the rewards of the two answers.",
        {.min = 0, .max = 1e6, .example = "1.0"});
  t.add("cpo_loss_type", &S::cpo_loss_type, "cpo: loss of a pair.", {.example = "hinge"});
  t.add("cpo_alpha", &S::cpo_alpha,
        "cpo, simpo: weight of the cross-entropy of the chosen answers; 0 for SimPO proper.",
        {.min = 0, .max = 1e6, .example = "0"});
  t.add("kto_loss_type", &S::kto_loss_type, "kto: loss of an answer.", {.example = "apo_zero_unpaired"});
  t.add("kto_desirable_weight", &S::kto_desirable_weight, "kto: weight of good answers.",
        {.min = 0, .max = 1e6, .example = "1.0"});
  t.add("kto_undesirable_weight", &S::kto_undesirable_weight, "kto: weight of bad answers.",
        {.min = 0, .max = 1e6, .example = "1.0"});
  t.add("trl", &S::trl, "grpo: what is sampled, and the loss; dpo: beta and the three keys of sync_ref_model.",
        {.example = "{num_generations: 8}"});
  t.add("rewards", &S::rewards,
        "grpo: what a completion is worth, as the checks of evals: exact, contains, {regex: PATTERN}, json_valid, "
        "{json_schema: FILE}, choice, {length: MAX}, {command: PROGRAM}, {model: DIR of a reward model}; each with "
        "'weight' and 'name'. A check is worth 1 where it passes, or its score.",
        {.example = "[exact, {length: 200, weight: 0.2}]"});
  add_reward_models(t);
  return {std::move(t), &Recipe::preference};
}

}  // namespace dml::recipe
