#include "assembly/objective_choice.h"

#include <algorithm>
#include <utility>

#include "assembly/base_model.h"
#include "core/error.h"
#include "plugin/tables.h"
#include "train/objective/pair_objective.h"
#include "train/objective/reward_objective.h"
#include "train/objective/unpaired_objective.h"
#include "train/objective_rows.h"
#include "train/token_loss.h"

namespace dml {
namespace {

Divergence divergence_of(FDivergence type) {
  switch (type) {
    case FDivergence::reverse_kl:
      break;
    case FDivergence::forward_kl:
      return Divergence::forward_kl;
    case FDivergence::js_divergence:
      return Divergence::js_divergence;
    case FDivergence::alpha_divergence:
      return Divergence::alpha_divergence;
  }
  return Divergence::reverse_kl;
}

const PairLossRow* row(const std::vector<PairLossRow>& rows, std::string_view name) {
  const PairLossRow* found = find_pair_loss(rows, name);
  DML_CHECK(found, "no loss of pairs is called {}", name);
  return found;
}

PairObjectiveSettings pair_settings(const PreferenceSection& s) {
  PairObjectiveSettings out;
  out.loss.beta = s.beta();
  out.loss.label_smoothing = s.dpo_label_smoothing;
  out.loss.divergence = divergence_of(s.f_divergence_type);
  out.loss.divergence_alpha = s.f_alpha_divergence_coef;
  out.reference = s.rl == Rl::dpo;
  out.weighting = s.rl == Rl::dpo && s.dpo_use_weighting;
  if (s.rl == Rl::dpo) {
    for (std::size_t i = 0; i < s.dpo_loss_type.size(); ++i) {
      const double weight = s.dpo_loss_weights.empty() ? 1 : s.dpo_loss_weights[i];
      if (s.dpo_loss_type[i] != "sft") out.terms.push_back({row(pair_losses(), s.dpo_loss_type[i]), weight});
      else out.nll = NllTokens::answer, out.nll_weight += weight;
    }
  } else if (s.rl == Rl::orpo) {
    out.terms.push_back({row(reference_free_losses(), "orpo")});
    out.nll = NllTokens::whole;
    out.nll_weight = 1;
  } else {
    const bool simpo = s.rl == Rl::simpo;
    out.terms.push_back({row(reference_free_losses(), simpo ? "simpo" : s.cpo_loss_type)});
    if (simpo) out.loss.margin = s.simpo_gamma / s.beta();
    out.nll_weight = s.cpo_alpha;
    if (s.cpo_alpha > 0) out.nll = NllTokens::answer;
  }
  return out;
}

bool has_weights(const DataSection& data) {
  auto weighted = [](const DatasetEntry& e) { return e.field_weight || e.message_field_weight; };
  return std::ranges::any_of(data.datasets, weighted) || std::ranges::any_of(data.test_datasets, weighted);
}

}  // namespace

ReferenceSource reference_source(const Recipe& recipe, const CausalLm& model) {
  const PreferenceSection& s = recipe.preference;
  const AdapterSection& a = recipe.adapter;
  if (s.moves_reference()) return ReferenceSource::moving;
  if (!s.needs_reference() || s.precompute_ref_log_probs || a.makes_model() || !starts_as_base(a))
    return ReferenceSource::batch;
  if (model.spec.moe.experts > 0) return ReferenceSource::batch;  // a pass without adapters is not the reference
  for (const Unit& unit : model.parameters.units())
    for (const Parameter& p : unit.parameters)
      if (p.name.find(".lora_") == p.name.npos && p.name.find(".token_adapter.") == p.name.npos)
        return ReferenceSource::batch;
  return ReferenceSource::base;
}

bool has_token_loss(const Recipe& recipe) {
  const auto& objective = recipe.train.objective;
  return recipe.data.rows == RowKind::text && (!objective || objectives().at(*objective).make.of_tokens);
}

std::unique_ptr<Objective> make_objective(const Recipe& recipe, CausalLm::Shape mismatched,
                                          DocumentReference reference) {
  const PreferenceSection& s = recipe.preference;
  const kernels::ExtraLoss extra{.label_smoothing = static_cast<float>(recipe.train.label_smoothing_factor),
                                 .z_loss = static_cast<float>(recipe.train.z_loss)};
  if (const auto& name = recipe.train.objective) {
    const ObjectiveKind& kind = objectives().at(*name).make;
    if (kind.of_tokens && recipe.data.rows != RowKind::text)
      throw UserError("objective: {} is a token loss; preferences, rewards and reward models have their own losses",
                      *name);
    return kind.make({extra, has_weights(recipe.data), arguments_of(recipe.plugin.plugin_args, *name)});
  }
  if (s.reward_model) return std::make_unique<RewardObjective>(s.center_rewards_coefficient);
  if (s.rl == Rl::none) return std::make_unique<TokenLoss>(extra, has_weights(recipe.data));
  if (s.rl != Rl::kto) {
    PairObjectiveSettings settings = pair_settings(s);
    settings.source = std::move(reference);
    return std::make_unique<PairObjective>(std::move(settings));
  }
  return std::make_unique<UnpairedObjective>(
      UnpairedSettings{s.beta(), s.kto_desirable_weight, s.kto_undesirable_weight,
                       s.kto_loss_type == KtoLoss::apo_zero_unpaired},
      mismatched, std::move(reference));
}

LoaderOptions loader_options(const Recipe& recipe, const ReferenceScores& references, bool validation) {
  const PreferenceSection& s = recipe.preference;
  LoaderOptions out;
  if (s.reward_model) out.labels = LabelRule::text_end;
  if (s.process_reward_model) out.labels = LabelRule::classes;
  out.ld_alpha = s.ld_alpha.value_or(1);
  out.mismatched = s.mismatches_answers();
  out.most_tokens = recipe.data.sequence_len;
  out.share_prompts = recipe.data.rows == RowKind::pairs &&
                      recipe.adapter.lora_dropout == 0;  // shared prompts would share dropout masks
  if (!s.needs_reference()) return out;
  out.references = &references;
  if (out.mismatched)
    out.mismatched_references = validation ? &references.mismatched_validation : &references.mismatched;
  return out;
}

std::optional<Schedule> evaluation_schedule(const Recipe& recipe, const Examples& validation, std::int64_t ranks) {
  if (validation.empty()) return std::nullopt;
  // Losses of preferences may depend on other rows, so an evaluation is one step on any number of ranks.
  const bool together = recipe.data.rows != RowKind::text && recipe.data.rows != RowKind::steps;
  return Schedule(validation.lengths(), eval_schedule(recipe.data, recipe.train, together ? validation.size() : ranks));
}

}  // namespace dml
