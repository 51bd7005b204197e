#include "optim/groups.h"

namespace dml {

LearningRateGroups::Rule LearningRateGroups::rule(const Parameter& parameter) const {
  auto relative = [&](double rate) { return peak > 0 ? static_cast<float>(rate / peak) : 1; };
  const bool is_end = parameter.role == ParameterRole::embedding || parameter.role == ParameterRole::head;
  if ((embedding || embedding_scale) && is_end)
    return {embedding ? relative(*embedding) : static_cast<float>(*embedding_scale), false};
  for (const Group& group : groups)
    for (const std::string& module : group.modules)
      if (parameter.name.find(module) != std::string::npos) return {relative(group.learning_rate), true};
  return {};
}

}  // namespace dml
