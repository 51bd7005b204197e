// Rules of the keys about rewards.
#include "recipe/rule_report.h"

namespace dml::recipe {
namespace {

// Whether a method other than grpo uses a key of `trl`.
bool is_read(const std::string& key, Rl rl) {
  if (key == "beta") return rl != Rl::none;
  return rl == Rl::dpo && (key == "sync_ref_model" || key.starts_with("ref_model_"));
}

void check_idle_rewards(const Recipe& recipe, RuleReport& rules) {
  static const TrlSettings fresh;
  const std::string& why = recipe.preference.rl == Rl::none ? "without rl" : "with " + rules.cite("rl");
  for (const Field& field : table<TrlSettings>().fields()) {
    const std::string key = "trl." + field.key;
    if (is_read(field.key, recipe.preference.rl)) continue;
    if (rules.given(key) && field.write(&recipe.preference.trl) != field.write(&fresh))
      rules.warning(key, fmt::format("'{}' has no effect {}", key, why));
  }
  if (!recipe.preference.rewards.empty()) rules.warning("rewards", fmt::format("'rewards' has no effect {}", why));
}

void check_sizes(const Recipe& recipe, RuleReport& rules) {
  const TrlSettings& trl = recipe.preference.trl;
  const TrainSection& t = recipe.train;
  if (trl.max_completion_length >= recipe.data.sequence_len)
    rules.error(rules.given("trl.max_completion_length") ? "trl.max_completion_length" : "sequence_len",
                fmt::format("'trl.max_completion_length' of {} leaves no room for a prompt, since {} of {} holds both; "
                            "raise sequence_len, or lower trl.max_completion_length",
                            trl.max_completion_length, rules.cite("sequence_len"), recipe.data.sequence_len));
  if (t.batch_size && *t.batch_size % trl.num_generations != 0)
    rules.error("batch_size", fmt::format("'batch_size' of {} completions must be a multiple of {}, which is {}",
                                          *t.batch_size, rules.cite("trl.num_generations"), trl.num_generations));
  const std::int64_t of_step = t.micro_batches_per_step(1);
  if (trl.steps_per_generation && *trl.steps_per_generation % of_step != 0)
    rules.error("trl.steps_per_generation",
                fmt::format("'trl.steps_per_generation' of {} must be a multiple of the micro-batches of a step, {}",
                            *trl.steps_per_generation, of_step));
  if (!trl.reward_weights.empty() && trl.reward_weights.size() != recipe.preference.rewards.size())
    rules.error("trl.reward_weights",
                fmt::format("'trl.reward_weights' has {} weights, {} has {} rewards", trl.reward_weights.size(),
                            rules.cite("rewards"), recipe.preference.rewards.size()));
}

void check_data_of_rewards(const Recipe& recipe, RuleReport& rules) {
  auto refuse = [&](const char* key, bool set, const std::string& why) {
    if (set) rules.error(key, fmt::format("'{}' does not work with {}: {}", key, rules.cite("rl"), why));
  };
  const DataSection& d = recipe.data;
  refuse("sample_packing", d.sample_packing, "completions are always packed, without padding");
  refuse("group_by_length", d.group_by_length, "the lengths of completions are not known before they are sampled");
  const std::string own = "measure with 'evals', whose checks are those of 'rewards'";
  refuse("val_set_size", d.val_set_size > 0, own);
  refuse("test_datasets", !d.test_datasets.empty(), own);
  refuse("excess_length_strategy", d.excess_length_strategy == ExcessLength::truncate,
         "a truncated prompt is another question; use drop or raise");
}

}  // namespace

void check_rewards(const Recipe& recipe, RuleReport& rules) {
  if (recipe.preference.rl != Rl::grpo) return check_idle_rewards(recipe, rules);
  if (recipe.preference.rewards.empty())
    rules.error("rl", "'rl: grpo' needs 'rewards', a list like that of checks in evals: rewards: [exact]");
  const ModelSection& m = recipe.model;
  if (recipe.preference.beta() > 0 && !recipe.preference.moves_reference() &&
      (m.reinit_weights || m.base_model.empty()))
    rules.error(
        rules.given("trl.beta") ? "trl.beta" : "rl_beta",
        "'trl.beta' above 0 needs a model to stay close to, and this one starts from random weights; remove it");
  check_sizes(recipe, rules);
  check_data_of_rewards(recipe, rules);
}

}  // namespace dml::recipe
