#include "model/adapter_config.h"

#include <algorithm>
#include <cmath>

#include "core/closest.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

bool is_suffix(std::string_view module, std::string_view part) {
  return module == part ||
         (module.size() > part.size() && module.ends_with(part) && module[module.size() - part.size() - 1] == '.');
}

bool any_suffix(std::string_view module, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](auto& p) { return is_suffix(module, p); });
}

/// The number of the first "NAME.3." behind at least one more part; −1: none.
std::int64_t layer_number(std::string_view module) {
  std::size_t at = module.find('.');
  while (at != std::string_view::npos) {
    std::size_t start = module.find('.', at + 1);
    if (start == std::string_view::npos) return -1;
    std::size_t end = module.find('.', start + 1);
    if (end == std::string_view::npos) return -1;
    auto digits = module.substr(start + 1, end - start - 1);
    if (!digits.empty() && digits.size() < 10 &&
        std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
      return std::stoll(std::string(digits));
    at = start;
  }
  return -1;
}

std::vector<std::string> last_parts(const std::vector<AdaptableModule>& modules) {
  std::vector<std::string> out;
  for (auto& m : modules) {
    std::string part = m.name.substr(m.name.rfind('.') + 1);
    if (std::ranges::find(out, part) == out.end()) out.push_back(part);
  }
  return out;
}

void refuse_unsupported(const AdapterConfig& c, const std::string& source) {
  Problems problems;
  if (c.bias != "none") problems.add(fmt::format("{}: 'bias' is '{}', only 'none' is supported", source, c.bias));
  if (c.lora_bias) problems.add(fmt::format("{}: 'lora_bias' is not supported", source));
  if (!(c.dropout >= 0 && c.dropout < 1))
    problems.add(fmt::format("{}: 'lora_dropout' must be at least 0 and below 1, is {}", source, c.dropout));
  for (const char* init : {"pissa_niter", "corda", "lora_ga"})
    if (c.init.starts_with(init))
      problems.add(
          fmt::format("{}: init_lora_weights '{}' changes the base model in a way that cannot be repeated here; PEFT "
                      "can convert such an adapter when it saves it",
                      source, c.init));
  problems.raise();
}

}  // namespace

std::vector<std::string> default_targets(const std::string& model_type) {
  if (model_type == "phi3") return {"qkv_proj"};
  if (model_type == "gpt2") return {"c_attn"};
  return {"q_proj", "v_proj"};
}

AdapterRules::AdapterRules(const AdapterConfig& config, const std::string& source) : config_(config), source_(source) {
  if (!config.target_pattern.empty()) target_.emplace(config.target_pattern, source + ": 'target_modules'");
  if (!config.exclude_pattern.empty()) exclude_.emplace(config.exclude_pattern, source + ": 'exclude_modules'");
  auto key_pattern = [&](const std::string& key, const char* where) {
    return NamePattern("(?:.*\\.)?(?:" + key + ")", fmt::format("{}: '{}'", source, where));
  };
  for (auto& [key, r] : config.rank_pattern) ranks_.emplace_back(key_pattern(key, "rank_pattern"), r);
  for (auto& [key, alpha] : config.alpha_pattern) alphas_.emplace_back(key_pattern(key, "alpha_pattern"), alpha);
}

bool AdapterRules::excluded(std::string_view module) const {
  return exclude_ ? exclude_->matches(module) : any_suffix(module, config_.exclude_modules);
}

bool AdapterRules::in_chosen_layer(std::string_view module) const {
  if (!config_.layers_to_transform || config_.layers_to_transform->empty()) return true;
  if (!config_.layers_pattern.empty() && std::ranges::none_of(config_.layers_pattern, [&](auto& p) {
        return module.find("." + p + ".") != std::string_view::npos;
      }))
    return false;
  std::int64_t layer = layer_number(module);
  return layer >= 0 && std::ranges::find(*config_.layers_to_transform, layer) != config_.layers_to_transform->end();
}

bool AdapterRules::targets(const AdaptableModule& module) const {
  if (excluded(module.name) || saves(module.name)) return false;
  if (config_.all_linear) return !module.embedding && !module.head;
  if (target_) return target_->matches(module.name);
  if (std::ranges::find(config_.target_modules, module.name) != config_.target_modules.end()) return true;
  return any_suffix(module.name, config_.target_modules) && in_chosen_layer(module.name);
}

std::int64_t AdapterRules::rank_for(std::string_view module) const {
  for (auto& [pattern, r] : ranks_)
    if (pattern.matches(module)) return r;
  return config_.r;
}

double AdapterRules::alpha_for(std::string_view module) const {
  for (auto& [pattern, alpha] : alphas_)
    if (pattern.matches(module)) return alpha;
  return config_.alpha;
}

double AdapterRules::scale_for(std::string_view module) const {
  auto r = static_cast<double>(rank_for(module));
  return alpha_for(module) / (config_.use_rslora ? std::sqrt(r) : r);
}

bool AdapterRules::saves(std::string_view module) const {
  return std::ranges::any_of(config_.modules_to_save, [&](auto& m) { return module.ends_with(m); });
}

AdapterPlan plan_adapter(const AdapterConfig& config, const ModelSpec& spec, const std::string& source) {
  refuse_unsupported(config, source);
  AdapterRules rules(config, source);
  AdapterPlan plan;
  Problems problems;
  auto modules = adaptable_modules(spec);
  if (spec.tied && rules.targets({.name = "lm_head", .head = true}))
    throw UserError(
        "{}: 'lm_head' is to be adapted, but the head of this {} model is its embedding (tie_word_embeddings): adapt "
        "embed_tokens, or give the model a head of its own with dml convert --untied",
        source, spec.model_type);
  for (auto& m : modules) {
    if (!rules.targets(m)) continue;
    std::int64_t r = rules.rank_for(m.name);
    double scale = rules.scale_for(m.name);
    if (r < 1 || r > (1 << 16))
      problems.add(fmt::format("{}: rank of '{}' must be 1 to 65536, is {}", source, m.name, r));
    else if (!(std::abs(scale) < 1e6) || scale == 0)
      problems.add(fmt::format("{}: alpha {} of '{}' is out of range", source, rules.alpha_for(m.name), m.name));
    else plan.modules.push_back({m, r, scale});
  }
  problems.raise();
  for (auto& w : weight_names(spec))
    if (w.first_row == 0 && rules.saves(w.module())) plan.saved.push_back(w);

  auto parts = last_parts(modules);
  for (auto& name : config.modules_to_save)
    if (std::ranges::none_of(plan.saved, [&](auto& w) { return w.module().ends_with(name); }))
      throw UserError("{}: modules_to_save names '{}', which this {} model does not have{}{}", source, name,
                      spec.model_type, spec.tied && name == "lm_head" ? " (its head is the embedding)" : "",
                      did_you_mean(name, parts));
  if (plan.modules.empty() && plan.saved.empty()) {
    std::string wanted = !config.target_pattern.empty() ? config.target_pattern
                                                        : fmt::format("{}", fmt::join(config.target_modules, ", "));
    throw UserError("{}: target modules '{}' match no module of this {} model; it has {}", source, wanted,
                    spec.model_type, fmt::join(parts, ", "));
  }
  return plan;
}

std::vector<AdapterTensor> adapter_tensors(const AdapterConfig& config, const AdapterPlan& plan) {
  using Kind = AdapterTensor::Kind;
  std::vector<AdapterTensor> out;
  for (auto& [m, r, scale] : plan.modules) {
    std::string stem = std::string(kPrefix) + m.name;
    if (m.embedding) {  // rows are tokens: A maps the one-hot token, so it is (r, vocab)
      out.push_back({Kind::a, stem + ".lora_embedding_A", m.name, {r, m.rows}});
      out.push_back({Kind::b, stem + ".lora_embedding_B", m.name, {m.cols, r}});
    } else {
      out.push_back({Kind::a, stem + ".lora_A.weight", m.name, {r, m.cols}});
      out.push_back({Kind::b, stem + ".lora_B.weight", m.name, {m.rows, r}});
    }
    if (config.use_dora)
      out.push_back({Kind::magnitude, stem + ".lora_magnitude_vector", m.name, {m.embedding ? m.cols : m.rows}});
  }
  for (auto& w : plan.saved) out.push_back({Kind::saved, std::string(kPrefix) + w.tensor, w.tensor, w.tensor_shape()});
  return out;
}

}  // namespace dml
