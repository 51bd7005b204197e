// What an adapter's config names and the model does not have, as far as that is not an error.
#include <algorithm>

#include "core/closest.h"
#include "core/error.h"
#include "model/adapter_plan.h"

namespace dml {

std::vector<std::string> misspelt_targets(const AdapterConfig& config, const ModelSpec& spec) {
  const auto modules = adaptable_modules(spec);
  std::vector<std::string> lines, free = last_parts(modules);
  std::erase_if(
      free, [&](auto& part) { return std::ranges::find(config.target_modules, part) != config.target_modules.end(); });
  for (const std::string& name : config.target_modules) {
    const auto matches = [&](const AdaptableModule& m) { return m.name == name || m.name.ends_with("." + name); };
    if (std::ranges::any_of(modules, matches)) continue;
    if (const std::string near = closest(name, free); !near.empty())
      lines.push_back(fmt::format("target module '{}' matches no module; did you mean '{}'?", name, near));
  }
  return lines;
}

std::vector<std::string> idle_patterns(const AdapterConfig& config, const ModelSpec& spec) {
  const AdapterPlan plan = plan_adapter(config, spec, "");
  std::vector<std::string> names, lines;
  for (const AdaptedModule& m : plan.modules) names.push_back(m.module.name);
  for (const AdaptedExperts& e : plan.experts) names.push_back(e.parameter.name);
  for (const std::string& key : AdapterRules(config, "").idle_patterns(names))
    lines.push_back(fmt::format("lora_rank_pattern or lora_alpha_pattern: '{}' matches no adapted module", key));
  return lines;
}

}  // namespace dml
