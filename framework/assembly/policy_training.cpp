#include "assembly/policy_training.h"

#include <utility>

#include "assembly/distribution.h"
#include "assembly/sampled_completions.h"
#include "core/error.h"
#include "core/log.h"

namespace dml {
namespace {

PolicyObjectiveSettings settings_of(const Recipe& recipe) {
  const TrlSettings& trl = recipe.preference.trl;
  PolicyObjectiveSettings out;
  out.temperature = trl.temperature;
  out.mask_truncated = trl.mask_truncated_completions;
  PolicySettings& loss = out.loss;
  loss.epsilon_low = trl.epsilon;
  loss.epsilon_high = trl.epsilon_high.value_or(trl.epsilon);
  loss.delta = trl.delta;
  loss.beta = recipe.preference.beta();
  loss.sequence_level = trl.importance_sampling_level == RatioLevel::sequence;
  loss.longest = trl.max_completion_length;
  // bnpo is a mean over tokens of a micro-batch in TRL; here a micro-batch changes nothing.
  loss.average = trl.loss_type == PolicyLoss::grpo      ? PolicyAverage::completions
                 : trl.loss_type == PolicyLoss::dr_grpo ? PolicyAverage::fixed
                                                        : PolicyAverage::tokens;
  return out;
}

// The model at the start of the run, on the same mapped files.
std::unique_ptr<CausalLm> make_reference(const PolicyTrainingParts& p) {
  if (p.recipe.preference.beta() == 0 || p.recipe.preference.moves_reference()) return nullptr;
  const AdapterSection& adapter = p.recipe.adapter;
  log_info("Reference  {}", starts_as_base(adapter)  ? "the base model"
                            : adapter.lora_model_dir ? "the adapter that the run starts from"
                                                     : "the model that the run starts from");
  return make_start_model(p.base, p.recipe.model, adapter, p.recipe.train.seed, {.bf16 = trains_bf16(p.recipe)});
}

}  // namespace

std::unique_ptr<Objective> make_policy_objective(const PolicyTrainingParts& p) {
  PolicyObjectiveSettings settings = settings_of(p.recipe);
  settings.share_prompts = p.recipe.adapter.lora_dropout == 0;
  if (p.recipe.preference.moves_reference()) settings.swap_reference = p.swap_reference;
  const ModelSpec& spec = p.base.spec;
  if (settings.temperature != 1 && (spec.final_softcap > 0 || spec.bias.head))
    throw UserError("trl.temperature of {} does not work with a model {}; use 1", settings.temperature,
                    spec.bias.head ? "whose head has a bias" : "that caps its logits")
        .about("trl.temperature");
  auto completions = std::make_unique<SampledCompletions>(p.recipe, p.prepared, p.schedule, p.tokenizer, spec,
                                                          p.strategy, p.comm.size());
  return std::make_unique<PolicyObjective>(settings, p.schedule, std::move(completions), make_reference(p));
}

}  // namespace dml
