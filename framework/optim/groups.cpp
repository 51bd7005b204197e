#include "optim/groups.h"

namespace dml {

LearningRateGroups::Rule LearningRateGroups::rule(std::string_view parameter) const {
  auto contains = [&](std::string_view part) { return parameter.find(part) != std::string_view::npos; };
  auto relative = [&](double rate) { return peak > 0 ? static_cast<float>(rate / peak) : 1; };
  if ((embedding || embedding_scale) && (contains("embed_tokens") || contains("lm_head")))
    return {embedding ? relative(*embedding) : static_cast<float>(*embedding_scale), false};
  for (const Group& group : groups)
    for (const std::string& module : group.modules)
      if (contains(module)) return {relative(group.learning_rate), true};
  return {};
}

}  // namespace dml
