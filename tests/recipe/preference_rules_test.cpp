// Rules of the keys about preferences.
#include <gtest/gtest.h>

#include "core/files.h"
#include "recipe/sample.h"

namespace dml {
namespace {

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

RecipeFile preference_file(const std::string& lines) { return read_recipe(kSample + lines, "r.yml", {}); }

bool warned(const RecipeFile& file, const std::string& part) {
  for (auto& line : file.warnings)
    if (mentions(line, part)) return true;
  return false;
}

TEST(PreferenceRules, RlDecidesWhatRowsAre) {
  EXPECT_EQ(parsed("").data.rows, RowKind::text);
  EXPECT_EQ(parsed("rl: dpo\n").data.rows, RowKind::pairs);
  EXPECT_EQ(parsed("rl: kto\n").data.rows, RowKind::labeled);
  const Recipe ipo = parsed("rl: ipo\n");
  EXPECT_EQ(ipo.preference.rl, Rl::dpo);
  EXPECT_EQ(ipo.preference.dpo_loss_type, std::vector<std::string>{"ipo"});
  EXPECT_EQ(parsed("rl:\n").preference.rl, Rl::none);
}

TEST(PreferenceRules, RewardModelsDecideHeadRowsAndSavedModules) {
  const Recipe reward = parsed("reward_model: true\n");
  EXPECT_EQ(reward.model.task, ModelTask::reward);
  EXPECT_EQ(reward.data.rows, RowKind::pairs);
  EXPECT_EQ(reward.preference.num_labels, 1);
  EXPECT_EQ(parsed("process_reward_model: true\n").data.rows, RowKind::steps);
  EXPECT_TRUE(mentions(problems("reward_model: true\nrl: dpo\n"), "'reward_model' does not work with"));
  EXPECT_TRUE(mentions(problems("reward_model: true\nprocess_reward_model: true\n"), "not both"));
  EXPECT_TRUE(mentions(problems("reward_model: true\nnum_labels: 2\n"), "'num_labels' must be 1"));
}

TEST(PreferenceRules, BetaHasSeveralNames) {
  EXPECT_EQ(parsed("rl: dpo\n").preference.beta(), 0.1);
  EXPECT_EQ(parsed("rl: dpo\ndpo_beta: 0.3\n").preference.beta(), 0.3);
  EXPECT_EQ(parsed("rl: orpo\norpo_alpha: 0.2\n").preference.beta(), 0.2);
  EXPECT_EQ(parsed("rl: dpo\ntrl: {beta: 0.2}\n").preference.beta(), 0.2);
  // Two of them contradict each other, as far as the method reads them.
  EXPECT_EQ(problems("rl: orpo\norpo_alpha: 0.2\nrl_beta: 0.4\n"),
            "r.yml:8:10: set either 'rl_beta' or 'orpo_alpha' (line 7), not both");
  EXPECT_TRUE(mentions(problems("rl: dpo\nrl_beta: 0.1\ntrl: {beta: 0.2}\n"),
                       "set either 'trl.beta' or 'rl_beta' (line 7), not both"));
  EXPECT_TRUE(mentions(problems("rl: orpo\norpo_alpha: 0.2\ntrl: {beta: 0.2}\n"), "not both"));
  EXPECT_EQ(parsed("rl: dpo\norpo_alpha: 0.2\nrl_beta: 0.4\n").preference.beta(), 0.4);
  EXPECT_EQ(problems("rl: dpo\ndpo_beta: 0.2\nrl_beta: 0.1\n"),
            "r.yml:8:1: 'rl_beta' is the same setting as 'dpo_beta', which line 7 sets");
}

// What follows from an unreadable value is not reported.
TEST(PreferenceRules, AnInvalidValueIsOneProblem) {
  const std::string labels = problems("process_reward_model: true\nnum_labels: 3\n");
  EXPECT_TRUE(mentions(labels, "at most 2, is '3'"));
  EXPECT_FALSE(mentions(labels, "must be 2 with")) << labels;
  const std::string path = testing::TempDir() + "invalid_rl.yml";
  write_file(path, kSample + "rl: dppo\nrl_beta: 0.2\n");
  const RecipeFile file = examine_recipe(path);
  EXPECT_FALSE(warned(file, "no effect"));
  ASSERT_EQ(file.problems.size(), 1u);
  EXPECT_EQ(file.problems[0].key, "rl");
}

TEST(PreferenceRules, InvalidCombinationsAreRejectedByTheirKey) {
  EXPECT_TRUE(mentions(problems("rl: dpo\ndpo_loss_type: [exo_pair]\n"), "needs dpo_label_smoothing"));
  EXPECT_TRUE(mentions(problems("rl: dpo\ndpo_loss_type: [sigmoid, sft]\ndpo_loss_weights: [1]\n"), "has 1 weights"));
  EXPECT_TRUE(mentions(problems("rl: dpo\ndpo_loss_weights: [0]\n"), "nothing would be trained"));
  EXPECT_TRUE(mentions(problems("rl: dpo\ndpo_loss_type: [sigmoyd]\n"), "sigmoid"));
  EXPECT_TRUE(mentions(problems("rl: dpo\nexcess_length_strategy: split_turns\n"), "split_turns"));
  EXPECT_TRUE(mentions(problems("rl: dpo\nneftune_noise_alpha: 5\n"), "noise"));
  EXPECT_TRUE(mentions(problems("rl: kto\nbatch_size: 1\n"), "different rows"));
  EXPECT_TRUE(warned(preference_file("rl: kto\n"), "different rows"));
  EXPECT_FALSE(warned(preference_file("rl: kto\ngradient_accumulation_steps: 2\n"), "different rows"));
  EXPECT_TRUE(mentions(problems("rl: grpo\n"), "needs 'rewards'"));
  EXPECT_TRUE(mentions(problems("rl: dpo\nrpo_alpha: 1\ndpo_loss_type: [hinge]\n"), "has replaced it"));
  EXPECT_TRUE(mentions(problems("rl: dpo\ndpo_use_weighting: true\ndpo_loss_type: [aot]\n"), "sorts the pairs"));
  for (const char* divergence : {"forward_kl", "js_divergence", "alpha_divergence"})
    EXPECT_TRUE(mentions(problems(fmt::format("rl: dpo\ndpo_loss_type: [dpop]\nf_divergence_type: {}\n", divergence)),
                         "does not work with dpop"));
  EXPECT_TRUE(mentions(problems("rl: dpo\ndpo_loss_type: [sft, aot_unpaired]\nf_divergence_type: forward_kl\n"),
                       "'f_divergence_type: forward_kl' does not work with aot_unpaired in 'dpo_loss_type'"));
  EXPECT_EQ(problems("rl: dpo\ndpo_loss_type: [dpop]\nf_divergence_type: reverse_kl\n"), "");
  EXPECT_TRUE(mentions(problems("sync_ref_model: true\n"), "write it under trl"));
  EXPECT_TRUE(mentions(problems("rl: dpo\nema_decay: 0.9\ntrl: {sync_ref_model: true}\n"), "second set"));
  EXPECT_EQ(problems("rl: dpo\ndpo_loss_type: [sigmoid, sft]\ndpo_loss_weights: [1, 0.5]\n"), "");
}

TEST(PreferenceRules, DeprecatedKeysBecomeLossTypes) {
  using Texts = std::vector<std::string>;
  const Recipe both = parsed("rl: dpo\nrpo_alpha: 0.5\ndpo_norm_loss: true\n");
  EXPECT_EQ(both.preference.dpo_loss_type, (Texts{"sigmoid_norm", "sft"}));
  EXPECT_EQ(both.preference.dpo_loss_weights, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(parsed("rl: dpo\ndpo_norm_loss: true\n").preference.dpo_loss_type, Texts{"sigmoid_norm"});
  EXPECT_EQ(parsed("rl: dpo\ndpo_norm_loss: false\n").preference.dpo_loss_type, Texts{"sigmoid"});
}

TEST(PreferenceRules, AReferenceMayFollowTheTrainedWeights) {
  const Recipe dpo = parsed("rl: dpo\ntrl: {sync_ref_model: true, ref_model_sync_steps: 64}\n");
  EXPECT_TRUE(dpo.preference.moves_reference());
  EXPECT_EQ(dpo.preference.trl.ref_model_mixup_alpha, 0.6);
  EXPECT_TRUE(warned(preference_file("rl: kto\ntrl: {sync_ref_model: true}\n"), "no effect"));
  // As in the recipe with all its settings that a run writes.
  EXPECT_TRUE(warned(preference_file("rl: dpo\ntrl: {sync_ref_model: true}\nprecompute_ref_log_probs: true\n"),
                     "the reference changes during the run"));
}

TEST(PreferenceRules, RewardsAndTrlsNames) {
  const std::string grpo =
      "rl: grpo\nrewards: [exact, {regex: a, weight: 0.5}]\nval_set_size: 0\nsample_packing: false\n";
  const auto with = [&](const std::string& trl) {
    return problems(grpo + "trl: {max_completion_length: 16, " + trl + "}\n");
  };
  EXPECT_EQ(with("num_generations: 4, scale_rewards: false, beta: 0.04"), "");
  EXPECT_TRUE(mentions(with("loss_type: sapo"), "dr_grpo"));
  EXPECT_TRUE(mentions(with("sync_ref_model: true"), "set trl.beta above 0"));
  EXPECT_TRUE(mentions(with("num_generatons: 4"), "num_generations"));
  EXPECT_EQ(with("use_vllm: true, vllm_server_port: 8000"), "");
  EXPECT_TRUE(mentions(problems(grpo + "trl: {max_completion_length: 100000}\n"),
                       "raise sequence_len, or lower trl.max_completion_length"));
  EXPECT_TRUE(mentions(problems(grpo + "reinit_weights: true\ntrl: {max_completion_length: 16, beta: 0.1}\n"),
                       "r.yml:11:40: 'trl.beta' above 0 needs a model to stay close to"));
  const Recipe recipe = parsed(grpo + "trl: {max_completion_length: 16, scale_rewards: false, loss_type: bnpo}\n");
  EXPECT_EQ(recipe.preference.trl.scale_rewards, AdvantageScale::none);
  EXPECT_EQ(recipe.preference.trl.loss_type, PolicyLoss::bnpo);
  EXPECT_EQ(recipe.data.rows, RowKind::prompts);
  EXPECT_EQ(recipe.data.completion_len, 16);
  EXPECT_EQ(recipe.preference.beta(), 0);
  EXPECT_EQ(recipe.preference.sampling(), &recipe.preference.trl);
  ASSERT_EQ(recipe.preference.rewards.size(), 2u);
  EXPECT_EQ(recipe.preference.rewards[1].options["weight"], 0.5);
  const Recipe gdpo =
      parsed("rl: gdpo\nrewards: [exact]\nval_set_size: 0\nsample_packing: false\ntrl: {max_completion_length: 16}\n");
  EXPECT_EQ(gdpo.preference.rl, Rl::grpo);
  EXPECT_EQ(gdpo.preference.trl.multi_objective_aggregation, RewardAggregation::normalize_then_sum);
  EXPECT_EQ(parsed("rl: dpo\ntrl: {beta: 0.3}\n").preference.beta(), 0.3);
  EXPECT_TRUE(warned(preference_file("rewards: [exact]\n"), "'rewards' has no effect without rl"));
  EXPECT_TRUE(warned(preference_file("rl: dpo\ntrl: {epsilon: 0.3}\n"), "'trl.epsilon' has no effect"));
}

TEST(PreferenceRules, UnusedKeysAndHighRatesAreReported) {
  EXPECT_TRUE(warned(preference_file("dpo_label_smoothing: 0.1\n"), "no effect without rl"));
  EXPECT_TRUE(warned(preference_file("rl: kto\nsimpo_gamma: 1.5\n"), "'simpo_gamma' has no effect"));
  EXPECT_TRUE(warned(preference_file("rl: dpo\n"), "is high for"));  // 2e-4
  EXPECT_FALSE(
      warned(read_recipe(kSample + "rl: dpo\n", "r.yml", parse_overrides({"--learning_rate", "5e-7"})), "is high"));
  EXPECT_TRUE(warned(preference_file("rl: simpo\n"), "cpo_alpha: 0"));
}

// Their micro-batches are packed in any case, and examples of similar length share a step.
TEST(PreferenceRules, PackingHasNoEffectAndGroupsByLengthHave) {
  for (const char* kind : {"rl: dpo\n", "rl: kto\n", "reward_model: true\nval_set_size: 0\n"}) {
    const auto file = preference_file(std::string(kind) + "group_by_length: true\nsample_packing: true\n");
    EXPECT_TRUE(warned(file, "'sample_packing' has no effect on training with")) << kind;
    EXPECT_FALSE(warned(file, "'group_by_length' has no effect")) << kind;
  }
  EXPECT_FALSE(warned(preference_file("sample_packing: true\n"), "'sample_packing' has no effect"));
}

TEST(PreferenceRules, SettingsOfWhatIsNotDoneAreReported) {
  for (const char* idle :
       {"rl: dpo\ncenter_rewards_coefficient: 0.1\n", "rl: dpo\ntrl: {ref_model_sync_steps: 64}\n",
        "rl: dpo\ntrl: {ref_model_mixup_alpha: 0.5}\n", "adapter: lora\nlora_target_linear: true\nloftq_iter: 2\n",
        "adapter: lora\nlora_target_linear: true\npeft_ensure_weight_tying: true\n",
        "group_by_length: true\ncurriculum_sampling: true\n"})
    EXPECT_TRUE(warned(preference_file(idle), "has no effect")) << idle;
  for (const char* used : {"reward_model: true\ncenter_rewards_coefficient: 0.1\n",
                           "rl: dpo\ntrl: {sync_ref_model: true, ref_model_sync_steps: 64}\n",
                           "adapter: lora\nlora_target_linear: true\nloftq_iter: 2\npeft_init_lora_weights: loftq\n",
                           "adapter: lora\nlora_target_linear: true\npeft_ensure_weight_tying: true\n"
                           "lora_modules_to_save: [embed_tokens]\n"})
    EXPECT_FALSE(warned(preference_file(used), "has no effect")) << used;
  const RecipeFile grpo = read_recipe(
      "base_model: m\nlearning_rate: 1e-5\nrl: grpo\nrewards: [exact]\ntrl: {max_completion_length: 8}\n"
      "datasets: [{path: rows.jsonl, type: alpaca, field_weight: w}]\n",
      "r.yml", {});
  EXPECT_TRUE(warned(grpo, "'datasets.0.field_weight' has no effect with 'rl' (line 3)"));
}

TEST(PreferenceRules, RewardModelsHaveNoDropout) {
  EXPECT_EQ(parsed("reward_model: true\nval_set_size: 0\nadapter: lora\nlora_target_linear: true\nlora_dropout: 0.1\n")
                .adapter.lora_dropout,
            0);
}

TEST(PreferenceRules, AnAdapterThatIsTrainedFurtherKeepsItsShape) {
  const std::string recipe = "adapter: lora\nlora_target_linear: true\nlora_model_dir: out/before\n";
  EXPECT_TRUE(warned(preference_file(recipe + "lora_r: 16\nlora_dropout: 0.1\n"),
                     "lora_r, lora_target_linear have no effect with 'lora_model_dir' (line"));
  EXPECT_TRUE(warned(preference_file(recipe + "lora_r: 16\n"), "the adapter keeps its own settings"));
  EXPECT_FALSE(
      warned(preference_file("adapter: lora\nlora_model_dir: out/before\nlora_dropout: 0.1\n"), "no effect with"));
}

TEST(PreferenceRules, DropoutIsLeftOut) {
  const RecipeFile file = preference_file("rl: dpo\nadapter: lora\nlora_target_linear: true\nlora_dropout: 0.1\n");
  EXPECT_EQ(file.recipe.adapter.lora_dropout, 0);
  bool said = false;
  for (auto& line : file.notices) said |= mentions(line, "lora_dropout is 0");
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace dml
