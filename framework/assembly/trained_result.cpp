#include "assembly/trained_result.h"

#include "checkpoint/adapter_io.h"
#include "core/directory.h"

namespace dml {

std::optional<ModelSection> trained_model(const Recipe& recipe) {
  if (!directory_has(recipe.train.output_dir, "config.json")) return std::nullopt;
  ModelSection out;
  out.base_model = recipe.train.output_dir;
  out.task = recipe.model.task;
  return out;
}

std::optional<std::string> trained_adapter(const Recipe& recipe) {
  if (holds_adapter(recipe.train.output_dir)) return recipe.train.output_dir;
  return recipe.adapter.lora_model_dir;
}

}  // namespace dml
