// All rows, in the order in which they are listed. Sources of every row: transformers' configuration_*.py and
// modeling_*.py of the family.
#include <algorithm>

#include "checkpoint/families/groups.h"
#include "checkpoint/model_files.h"

namespace dml {

const std::vector<Family>& families() {
  static const std::vector<Family> table = [] {
    std::vector<Family> all;
    for (auto group :
         {llama_families, qwen_families, gemma_families, phi_families, cohere_families, expert_families, gpt_families})
      for (Family& row : group()) all.push_back(std::move(row));
    return all;
  }();
  return table;
}

const Family* find_family(std::string_view model_type) {
  auto found = std::ranges::find(families(), model_type, &Family::model_type);
  return found == families().end() ? nullptr : &*found;
}

void fit_to_files(ModelSpec& spec, const ModelFiles& files) {
  auto has_names = [&](const Naming* n) { return files.find(std::string(n->embed) + ".weight") != nullptr; };
  const Naming* naming = spec.naming;
  while (naming && !has_names(naming)) naming = naming->alternative;
  if (naming) spec.naming = naming;
  fit_expert_layout(spec, files);
}

std::vector<std::string> default_targets(std::string_view model_type) {
  std::vector<std::string> out;
  const Family* family = find_family(model_type);
  for (const char* target : (family ? *family->naming : kLlamaNaming).targets)
    if (target) out.emplace_back(target);
  return out;
}

}  // namespace dml
