#include "assembly/optimization.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "core/error.h"
#include "optim/bf16_weights.h"
#include "optim/groups.h"
#include "optim/low_rank.h"
#include "train/ema.h"
#include "train/moving_reference.h"

namespace dml {
namespace {

LearningRateGroups groups_of(const OptimSection& optim) {
  LearningRateGroups out;
  out.peak = optim.learning_rate;
  out.embedding = optim.embedding_lr;
  out.embedding_scale = optim.embedding_lr_scale;
  for (const LrGroup& group : optim.lr_groups) out.groups.push_back({group.modules, group.lr});
  return out;
}

double loraplus_scale(const Parameter& p, double peak, const AdapterSection& adapter) {
  if (!adapter.loraplus_lr_ratio) return 1;
  if (p.name.find(".lora_embedding_") != std::string::npos) return peak > 0 ? adapter.loraplus_lr_embedding / peak : 1;
  bool fast = p.name.find(".lora_B") != std::string::npos || p.shape.size() == 1;
  return fast ? *adapter.loraplus_lr_ratio : 1;
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const Recipe& recipe) {
  const OptimSection& o = recipe.optim;
  const TrlSettings& trl = recipe.preference.trl;
  const auto seed = static_cast<std::uint64_t>(recipe.train.seed);
  OptimizerSettings s{o.weight_decay, o.adam_beta1, o.adam_beta2, o.adam_epsilon, o.adam_beta3, o.adam_epsilon2};
  s.args = o.optim_args;
  s.target_modules = o.optim_target_modules;
  s.schedule = o.lr_scheduler;
  s.seed = seed;
  std::unique_ptr<Optimizer> optimizer = optimizers().at(o.optimizer).make(s);
  if (o.bf16_weights != Bf16Weights::off)
    return std::make_unique<Bf16Optimizer>(
        std::move(optimizer), o.bf16_weights == Bf16Weights::kahan ? WeightRounding::kahan : WeightRounding::stochastic,
        seed);
  if (recipe.preference.moves_reference())
    return std::make_unique<ReferenceOptimizer>(std::move(optimizer), trl.ref_model_mixup_alpha,
                                                trl.ref_model_sync_steps);
  if (!o.ema_decay) return optimizer;
  return std::make_unique<AveragedOptimizer>(std::move(optimizer), *o.ema_decay);
}

ScheduleSettings learning_rate_settings(const OptimSection& o, std::int64_t steps) {
  ScheduleSettings s;
  s.name = o.lr_scheduler;
  s.peak = o.learning_rate;
  s.steps = steps;
  s.warmup_steps = o.warmup_steps;
  s.warmup_ratio = o.warmup_ratio;
  s.quadratic_warmup = o.lr_quadratic_warmup;
  s.min_lr_ratio = o.cosine_min_lr_ratio;
  s.constant_lr_ratio = o.cosine_constant_lr_ratio;
  s.kwargs = o.lr_scheduler_kwargs;
  s.restart_steps = o.jagged_restart_steps.value_or(0);
  s.restart_warmup = o.jagged_restart_warmup_steps;
  s.restart_anneal = o.jagged_restart_anneal_steps;
  return s;
}

namespace {

// A misspelt name would leave its parameters at the common rate.
void check_groups(const ParameterStore& parameters, const OptimSection& optim) {
  auto matches = [&](const std::string& module) {
    return std::ranges::any_of(parameters.units(), [&](const Unit& unit) {
      return std::ranges::any_of(unit.parameters,
                                 [&](const Parameter& p) { return p.name.find(module) != p.name.npos; });
    });
  };
  Problems problems;
  for (std::size_t i = 0; i < optim.lr_groups.size(); ++i)
    for (const std::string& module : optim.lr_groups[i].modules)
      if (!matches(module))
        problems.add({fmt::format("lr_groups.{}.modules", i), "",
                      fmt::format("'lr_groups.{}.modules': no trained parameter has '{}' in its name", i, module)});
  problems.raise();
}

}  // namespace

void set_learning_rates(ParameterStore& parameters, const OptimSection& optim, const AdapterSection& adapter) {
  check_groups(parameters, optim);
  const LearningRateGroups groups = groups_of(optim);
  for (Unit& unit : parameters.units())
    for (Parameter& p : unit.parameters) {
      LearningRateGroups::Rule rule = groups.rule(p);
      p.learning_rate_scale = static_cast<float>(loraplus_scale(p, groups.peak, adapter)) * rule.learning_rate_scale;
      p.decay = p.decay && rule.decay;
    }
}

namespace {

// The parts of the names of all matrices that low-rank optimizers can project: "self_attn", "q_proj" …
std::vector<std::string> module_words(const std::vector<const Parameter*>& matrices) {
  std::set<std::string> words;
  for (const Parameter* p : matrices) {
    std::istringstream name(p->name);
    for (std::string word; std::getline(name, word, '.');)
      if (!std::isdigit(static_cast<unsigned char>(word[0])) && word != "weight") words.insert(word);
  }
  return {words.begin(), words.end()};
}

}  // namespace

std::vector<std::string> idle_optimizer_targets(const ParameterStore& parameters, const OptimSection& optim) {
  const std::vector<std::string>& wanted = optim.optim_target_modules;
  if (wanted.empty() || !optimizers().at(optim.optimizer).make.takes_targets) return {};
  const OptimTargetModules all({"all-linear"});
  std::vector<const Parameter*> matrices;
  for (const Unit& unit : parameters.units())
    for (const Parameter& p : unit.parameters)
      if (all.contains(p)) matrices.push_back(&p);
  std::vector<std::string> idle;
  for (const std::string& module : wanted)
    if (const OptimTargetModules one({module});
        std::ranges::none_of(matrices, [&](const Parameter* p) { return one.contains(*p); }))
      idle.push_back(fmt::format("'optim_target_modules': no trained matrix has '{}' in its name{}", module,
                                 did_you_mean(module, module_words(matrices))));
  if (idle.size() == wanted.size())
    throw UserError("{}; {} would project no gradient", idle.front(), optim.optimizer).about("optim_target_modules");
  return idle;
}

}  // namespace dml
