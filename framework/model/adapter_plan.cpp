#include "model/adapter_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/closest.h"
#include "core/error.h"

namespace dml {
namespace {

ModelSpec untied(ModelSpec spec) {
  spec.tied = false;
  return spec;
}

void refuse_unsupported(const AdapterConfig& c, const std::string& source) {
  Problems problems;
  auto refuse = [&](const std::string& text) { problems.add(source + ": " + text); };
  if (!(c.dropout >= 0 && c.dropout < 1))
    refuse(fmt::format("'lora_dropout' must be at least 0 and below 1, is {}", c.dropout));
  for (const char* init : {"pissa_niter", "corda", "lora_ga"})
    if (c.init.starts_with(init))
      refuse(
          fmt::format("init_lora_weights '{}' changes the base model in a way that cannot be repeated here; PEFT can "
                      "convert such an adapter when it saves it",
                      c.init));
  if (c.lora_bias && c.use_dora) refuse("PEFT has no 'lora_bias' with 'use_dora'");
  if (c.lora_bias && c.init != "true" && c.init != "false")
    refuse(fmt::format("'lora_bias' needs init_lora_weights true or false, not '{}'", c.init));
  if (!c.target_pattern.empty() && c.layers_to_transform)
    refuse("layers_to_transform needs target_modules as a list of names; the regular expression can name the layers");
  problems.raise();
}

// Rejects combinations with target_parameters that PEFT rejects.
void refuse_with_experts(const AdapterConfig& c, const std::string& source) {
  Problems problems;
  auto refuse = [&](bool wrong, const char* what) {
    if (wrong) problems.add(fmt::format("{}: lora_target_parameters cannot be combined with {}", source, what));
  };
  refuse(c.dropout != 0, "lora_dropout above 0");
  refuse(c.use_dora, "peft_use_dora");
  refuse(c.lora_bias, "lora_bias");
  refuse(c.init != "true" && c.init != "false" && c.init != "gaussian", "this init_lora_weights");
  problems.raise();
}

void check_layers(const AdapterConfig& c, const ModelSpec& spec, const std::string& source) {
  if (!c.layers_to_transform) return;
  for (std::int64_t layer : *c.layers_to_transform)
    if (layer < 0 || layer >= spec.layers)
      throw UserError("{}: layers_to_transform: there is no layer {}; this model has layers 0 to {}", source, layer,
                      spec.layers - 1)
          .about("layers_to_transform");
}

std::vector<AdaptedExperts> plan_experts(const AdapterConfig& config, const AdapterRules& rules, const ModelSpec& spec,
                                         const std::string& source) {
  std::vector<AdaptedExperts> out;
  if (config.target_parameters.empty()) return out;
  refuse_with_experts(config, source);
  const std::vector<ExpertParameter> all = expert_parameters(spec);
  auto is_named = [](const ExpertParameter& p, const std::string& name) {
    return p.name == name || p.name.ends_with("." + name);
  };
  for (const std::string& name : config.target_parameters)
    if (std::ranges::none_of(all, [&](const ExpertParameter& p) { return is_named(p, name); })) {
      std::vector<std::string> known;
      if (!all.empty()) known = {spec.moe.naming->target_gate_up, spec.moe.naming->target_down};
      throw UserError("{}: lora_target_parameters names '{}', but this {} model has {}{}", source, name,
                      spec.model_type, known.empty() ? "no experts" : fmt::format("{}", fmt::join(known, " and ")),
                      did_you_mean(name, known));
    }
  for (const ExpertParameter& p : all) {
    if (!rules.targets_parameter(p.name)) continue;
    const bool nested = !p.down && std::ranges::any_of(all, [&](const ExpertParameter& other) {
      return other.down && other.module() == p.module() && rules.targets_parameter(other.name);
    });
    out.push_back({p, p.module() + (nested ? ".base_layer" : ""), rules.rank_for(p.name), rules.scale_for(p.name)});
  }
  return out;
}

/// How an adapter affects the embedding and the head.
struct Ends {
  WeightName embedding, head;
  std::vector<std::int64_t> embedding_rows{}, head_rows{};
  bool saves_embedding = false, saves_head = false, adapts_embedding = false, adapts_head = false;
  bool one_copy = false;  // tied, with one trained copy, or trained rows, for both
  bool unties_head = false;
};

void read_rows(const AdapterConfig& config, const ModelSpec& spec, Ends& ends, const std::string& source) {
  for (const TokenRows& r : config.token_rows) {
    const bool embedding = r.module.empty() || ends.embedding.module().ends_with(r.module),
               head = !embedding && ends.head.module().ends_with(r.module);
    if (!embedding && !head)
      throw UserError("{}: trainable_token_indices names '{}'; choose from {}, {}", source, r.module,
                      ends.embedding.module(), ends.head.module())
          .about("trainable_token_indices");
    auto& rows = embedding ? ends.embedding_rows : ends.head_rows;
    if (!rows.empty())
      throw UserError("{}: trainable_token_indices names '{}' more than once", source,
                      embedding ? ends.embedding.module() : ends.head.module())
          .about("trainable_token_indices");
    if (r.tokens.empty())
      throw UserError("{}: trainable_token_indices names no token", source).about("trainable_token_indices");
    rows = r.tokens;
    std::set<std::int64_t> seen;
    for (std::int64_t token : rows) {
      if (token < 0 || token >= spec.vocab)
        throw UserError("{}: trainable_token_indices: token {} is not in the vocabulary of {}", source, token,
                        spec.vocab)
            .about("trainable_token_indices");
      if (!seen.insert(token).second)
        throw UserError("{}: trainable_token_indices names token {} twice", source, token)
            .about("trainable_token_indices");
    }
  }
}

Ends ends_of(const AdapterConfig& config, const AdapterRules& rules, const ModelSpec& spec, const std::string& source) {
  const std::vector<WeightName> both = embedding_and_head(spec);
  Ends e{both[0], both[1]};
  const std::string embedding = e.embedding.module(), head = e.head.module();
  e.saves_embedding = rules.saves(embedding), e.saves_head = rules.saves(head);
  e.adapts_embedding = rules.targets({.name = embedding, .embedding = true});
  e.adapts_head = rules.targets({.name = head, .head = true});
  read_rows(config, spec, e, source);
  auto refuse_rows = [&](const std::string& name, bool rows, bool saved, bool adapted) {
    if (rows && (saved || adapted))
      throw UserError("{}: '{}' is in trainable_token_indices and in {}; name it in one of them", source, name,
                      saved ? "modules_to_save" : "target_modules")
          .about("trainable_token_indices");
  };
  refuse_rows(embedding, !e.embedding_rows.empty(), e.saves_embedding, e.adapts_embedding);
  refuse_rows(head, !e.head_rows.empty(), e.saves_head, e.adapts_head);
  if (!spec.tied) return e;

  const bool tie = config.ensure_weight_tying, same_rows = e.head_rows.empty() || e.head_rows == e.embedding_rows;
  if (tie && (e.adapts_embedding || e.adapts_head))
    throw UserError(
        "{}: ensure_weight_tying with LoRA on the embedding or the head of a tied model is not supported; train them "
        "whole (modules_to_save), or leave ensure_weight_tying out",
        source)
        .about("ensure_weight_tying");
  if (tie && !e.embedding_rows.empty() && !same_rows)
    throw UserError("{}: ensure_weight_tying needs the same trainable_token_indices for '{}' and '{}'", source,
                    embedding, head)
        .about("ensure_weight_tying");
  if (!e.embedding_rows.empty() && (e.saves_head || e.adapts_head))
    throw UserError(
        "{}: this model's head is tied, so trainable_token_indices trains its rows with those of '{}'; remove the head "
        "from {}",
        source, embedding, e.saves_head ? "modules_to_save" : "target_modules")
        .about("trainable_token_indices");
  const bool saves = e.saves_embedding || e.saves_head;
  if (tie && saves && (!e.embedding_rows.empty() || !e.head_rows.empty()))
    throw UserError(
        "{}: ensure_weight_tying trains one copy of embedding and head: trainable_token_indices has no place beside it",
        source)
        .about("ensure_weight_tying");
  e.one_copy = (tie && saves) || (!e.embedding_rows.empty() && same_rows);
  e.unties_head = !e.one_copy && (saves || e.adapts_embedding || e.adapts_head || !e.head_rows.empty());
  return e;
}

void plan_biases(const AdapterConfig& config, const ModelSpec& spec, const AdapterRules& rules, AdapterPlan& plan,
                 const std::string& source) {
  if (config.bias == "none") return;
  for (auto& w : weight_names(spec)) {
    if (!w.bias || w.first_row != 0 || rules.saves(w.module())) continue;
    if (config.bias == "all" || plan.adapted(w.module())) plan.biases.push_back(w);
  }
  if (std::ranges::any_of(plan.biases, [](const WeightName& w) { return w.role == WeightRole::head; }))
    throw UserError("{}: bias '{}' is not supported for a model whose head has a bias", source, config.bias);
}

void check_saved_names(const AdapterConfig& config, const ModelSpec& spec, const Ends& ends, const AdapterPlan& plan,
                       const std::vector<std::string>& parts, const std::string& source) {
  for (auto& name : config.modules_to_save) {
    const bool head = (ends.one_copy && ends.head.module().ends_with(name)) ||
                      (spec.head != HeadKind::causal_lm && is_classifier(name));
    if (!head && std::ranges::none_of(plan.saved, [&](auto& w) { return w.module().ends_with(name); }))
      throw UserError("{}: modules_to_save names '{}', which this {} model does not have{}", source, name,
                      spec.model_type, did_you_mean(name, parts))
          .about("modules_to_save");
  }
}

// For an adapter with nothing to train.
[[noreturn]] void refuse_empty(const AdapterConfig& config, const ModelSpec& spec,
                               const std::vector<std::string>& parts, const std::string& source) {
  const auto modules = adaptable_modules(spec);
  AdapterConfig wider = config;
  const auto finds_some = [&] {
    const AdapterRules rules(wider, source);
    return std::ranges::any_of(modules, [&](const AdaptableModule& m) { return rules.targets(m); });
  };
  wider.layers_pattern.clear();
  if (!config.layers_pattern.empty() && finds_some())
    throw UserError(
        "{}: layers_pattern '{}' is not the name of the list of layers of this {} model; a module of it is {}", source,
        fmt::join(config.layers_pattern, ", "), spec.model_type, modules[1].name)
        .about("layers_pattern");
  wider.layers_to_transform.reset();
  if (config.layers_to_transform && finds_some())
    throw UserError("{}: layers_to_transform [{}] leaves none of the target modules", source,
                    fmt::join(*config.layers_to_transform, ", "))
        .about("layers_to_transform");
  const std::string& pattern = config.target_pattern;
  std::string what = fmt::format("target modules '{}' match no module", fmt::join(config.target_modules, ", "));
  if (!pattern.empty())
    what =
        fmt::format("the regular expression '{}' of the target modules matches no whole name{}, such as '{}',", pattern,
                    std::ranges::find(parts, pattern) == parts.end()
                        ? ""
                        : fmt::format(" (to name modules by their last part, write a list: [{}])", pattern),
                    modules.front().name);
  throw UserError("{}: {} of this {} model; it has {}", source, what, spec.model_type, fmt::join(parts, ", "))
      .about("target_modules");
}

}  // namespace

const AdaptedModule* AdapterPlan::adapted(std::string_view module) const {
  auto found = std::ranges::find_if(modules, [&](const AdaptedModule& m) { return m.module.name == module; });
  return found == modules.end() ? nullptr : &*found;
}

const TrainedRows* AdapterPlan::rows_of(WeightRole role) const {
  auto found = std::ranges::find_if(rows, [&](const TrainedRows& r) { return r.weight.role == role; });
  return found == rows.end() ? nullptr : &*found;
}

const AdaptedExperts* AdapterPlan::experts_of(std::string_view key) const {
  constexpr std::string_view kPrefix = "base_model.model.", kSuffix = ".lora_B.weight";
  if (!key.starts_with(kPrefix) || !key.ends_with(kSuffix)) return nullptr;
  key = key.substr(kPrefix.size(), key.size() - kPrefix.size() - kSuffix.size());
  auto found = std::ranges::find(experts, key, &AdaptedExperts::stem);
  return found == experts.end() ? nullptr : &*found;
}

bool AdapterPlan::saves(const WeightName& w, const ModelSpec& spec) const {
  const bool follows = w.role == WeightRole::head && spec.tied && !unties_head;
  return std::ranges::any_of(
      saved, [&](const WeightName& s) { return s.tensor == w.tensor || (follows && s.role == WeightRole::embed); });
}

std::vector<WeightName> embedding_and_head(const ModelSpec& spec) {
  std::vector<WeightName> out;
  for (auto& w : weight_names(untied(spec)))
    if ((w.role == WeightRole::embed || w.role == WeightRole::head) && !w.bias) out.push_back(w);
  return out;
}

AdapterPlan plan_adapter(const AdapterConfig& config, const ModelSpec& given, const std::string& source) {
  refuse_unsupported(config, source);
  check_layers(config, given, source);
  if (given.head == HeadKind::causal_lm && config.head != HeadKind::causal_lm)
    throw UserError("{}: is the adapter of a reward model, which gives scores instead of text (dml score)", source);
  AdapterRules rules(config, source);
  const Ends ends = ends_of(config, rules, given, source);
  const ModelSpec spec = ends.unties_head ? untied(given) : given;
  AdapterPlan plan;
  plan.unties_head = ends.unties_head;
  Problems problems;
  auto modules = adaptable_modules(spec);
  for (auto& m : modules) {
    if (!rules.targets(m)) continue;
    std::int64_t r = rules.rank_for(m.name);
    double scale = rules.scale_for(m.name);
    if (r < 1 || r > (1 << 16))
      problems.add({"rank_pattern", "", fmt::format("{}: rank of '{}' must be 1 to 65536, is {}", source, m.name, r)});
    else if (!(std::abs(scale) < 1e6) || scale == 0)
      problems.add({"alpha_pattern", "",
                    fmt::format("{}: alpha {} of '{}' is out of range", source, rules.alpha_for(m.name), m.name)});
    else if (config.lora_bias && (m.embedding || m.head))
      problems.add(fmt::format("{}: lora_bias on '{}' is not supported", source, m.name));
    else plan.modules.push_back({m, r, scale});
  }
  problems.raise();
  plan.experts = plan_experts(config, rules, spec, source);
  for (auto& w : weight_names(spec)) {
    const bool shared = ends.one_copy && w.role == WeightRole::embed && (ends.saves_embedding || ends.saves_head);
    if (w.first_row == 0 && (shared || rules.saves(w.module()))) plan.saved.push_back(w);
  }
  plan_biases(config, spec, rules, plan, source);
  if (!ends.embedding_rows.empty()) plan.rows.push_back({ends.embedding, ends.embedding_rows});
  if (!ends.head_rows.empty() && !ends.one_copy) plan.rows.push_back({ends.head, ends.head_rows});

  auto parts = last_parts(adaptable_modules(untied(spec)));
  check_saved_names(config, spec, ends, plan, parts, source);
  if (plan.modules.empty() && plan.experts.empty() && plan.saved.empty() && plan.rows.empty())
    refuse_empty(config, spec, parts, source);
  return plan;
}

AdapterConfig resolved_config(AdapterConfig config, const ModelSpec& spec) {
  if (config.all_linear) {
    std::vector<std::string> all = linear_targets(spec);
    for (std::string& name : config.target_modules)
      if (std::ranges::find(all, name) == all.end()) all.push_back(std::move(name));
    if (!config.target_pattern.empty()) {  // PEFT's configs have either a list or a pattern
      const Regex pattern(std::exchange(config.target_pattern, ""), "lora_target_modules");
      for (const AdaptableModule& m : adaptable_modules(untied(spec)))
        if ((m.embedding || m.head || m.routed) && pattern.matches(m.name)) all.push_back(m.name);
    }
    config.target_modules = std::move(all);
    config.all_linear = false;
  }
  if (spec.head != HeadKind::causal_lm) {  // modules_to_save names the head as this family does
    const std::string head = embedding_and_head(spec)[1].module();
    if (std::erase_if(config.modules_to_save, is_classifier) > 0) config.modules_to_save.push_back(head);
  }
  if (config.ensure_weight_tying && spec.tied) {
    const std::vector<WeightName> both = embedding_and_head(spec);
    const std::string embedding = both[0].module(), head = both[1].module();
    auto names = [](const std::string& module) {
      return [&module](const std::string& name) { return module.ends_with(name); };
    };
    auto& saved = config.modules_to_save;
    const bool wanted = std::ranges::any_of(saved, names(head)) || std::ranges::any_of(saved, names(embedding));
    std::erase_if(saved, names(head));
    if (wanted && std::ranges::find(saved, embedding) == saved.end()) saved.push_back(embedding);
  }
  return config;
}

}  // namespace dml
