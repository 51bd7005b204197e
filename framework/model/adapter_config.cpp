#include "model/adapter_config.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace dml {
namespace {

bool is_suffix(std::string_view module, std::string_view part) {
  return module == part ||
         (module.size() > part.size() && module.ends_with(part) && module[module.size() - part.size() - 1] == '.');
}

bool any_suffix(std::string_view module, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](auto& p) { return is_suffix(module, p); });
}

/// The layer number of a module: the first numeric component that follows two others; −1 if there is none.
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

}  // namespace

std::vector<std::string> last_parts(const std::vector<AdaptableModule>& modules) {
  std::vector<std::string> out;
  for (auto& m : modules) {
    std::string part = m.name.substr(m.name.rfind('.') + 1);
    if (std::ranges::find(out, part) == out.end()) out.push_back(part);
  }
  return out;
}

std::vector<std::string> linear_targets(const ModelSpec& spec) {
  std::vector<std::string> out;
  for (const AdaptableModule& m : adaptable_modules(spec)) {
    if (m.embedding || m.head || m.routed) continue;
    std::string part = m.name.substr(m.name.rfind('.') + 1);
    // A name that experts also have is qualified by the component before it.
    if (spec.moe.experts > 0 && m.name.find(".mlp.") != std::string::npos)
      part = m.name.substr(m.name.rfind('.', m.name.rfind('.') - 1) + 1);
    if (std::ranges::find(out, part) == out.end()) out.push_back(std::move(part));
  }
  return out;
}

AdapterRules::AdapterRules(const AdapterConfig& config, const std::string& source) : config_(config), source_(source) {
  if (!config.target_pattern.empty()) target_.emplace(config.target_pattern, source + ": 'target_modules'");
  if (!config.exclude_pattern.empty()) exclude_.emplace(config.exclude_pattern, source + ": 'exclude_modules'");
  auto key_pattern = [&](const std::string& key, const char* where) {
    return Regex("(?:.*\\.)?(?:" + key + ")", fmt::format("{}: '{}'", source, where));
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
  if (config_.all_linear && !module.embedding && !module.head && !module.routed && in_chosen_layer(module.name))
    return true;
  if (target_) return target_->matches(module.name);
  if (std::ranges::find(config_.target_modules, module.name) != config_.target_modules.end()) return true;
  return any_suffix(module.name, config_.target_modules) && in_chosen_layer(module.name);
}

bool AdapterRules::targets_parameter(std::string_view name) const {
  return any_suffix(name, config_.target_parameters);
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

std::vector<std::string> AdapterRules::idle_patterns(const std::vector<std::string>& modules) const {
  std::vector<std::string> out;
  const auto add_idle = [&](const auto& patterns, const auto& keys) {
    for (std::size_t i = 0; i < patterns.size(); ++i)
      if (std::ranges::none_of(modules, [&](auto& name) { return patterns[i].first.matches(name); }))
        out.push_back(keys[i].first);
  };
  add_idle(ranks_, config_.rank_pattern);
  add_idle(alphas_, config_.alpha_pattern);
  return out;
}

bool AdapterRules::saves(std::string_view module) const {
  const bool classifier = is_classifier(module);
  return std::ranges::any_of(config_.modules_to_save,
                             [&](auto& m) { return module.ends_with(m) || (classifier && is_classifier(m)); });
}

bool is_classifier(std::string_view name) { return name == "score" || name == "classifier"; }

}  // namespace dml
