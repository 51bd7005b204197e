#include "pipeline/compared_models.h"

#include <algorithm>

#include "assembly/model_location.h"
#include "assembly/trained_result.h"
#include "assembly/vocabulary.h"
#include "checkpoint/adapter_io.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"

namespace dml {
namespace {

std::vector<ComparedModel> trained_models(const Recipe& recipe, std::vector<std::string> adapters) {
  const std::string& output_dir = recipe.train.output_dir;
  const bool has_head = recipe.model.task == ModelTask::causal_lm;  // a reward model's base has none
  std::vector<ComparedModel> out;
  if (recipe.adapter.makes_model()) {
    if (!adapters.empty())
      throw UserError("--adapter: this recipe trains the whole model; name a recipe that trains an adapter");
    ModelSection section = recipe.model;
    if (const auto trained = trained_model(recipe)) {
      section = *trained;
      if (has_head && base_is_there(recipe.model)) out.push_back({"base", recipe.model, {}});
    }
    if (section.base_model.empty()) throw UserError("{}: no trained model there yet; run dml train first", output_dir);
    out.push_back({section.base_model, section, {}});
    return out;
  }
  if (has_head && adapters == std::vector<std::string>{"none"}) return {{"base", recipe.model, {}}};
  if (adapters.empty()) adapters = {trained_adapter(recipe).value_or(output_dir)};
  if (has_head) out.push_back({"base", recipe.model, {}, adapters[0]});
  for (const std::string& directory : adapters) out.push_back({directory, recipe.model, {directory}, directory});
  return out;
}

// Another model on the recipe's data, alone and with adapters.
std::vector<ComparedModel> given_models(const Recipe& recipe, const std::string& base,
                                        std::vector<std::string> adapters) {
  if (adapters == std::vector<std::string>{"none"}) adapters.clear();
  ModelSection section = recipe.model;
  // What describes the recipe's own model: the given one has its config.json and weights.
  if (section.reinit_weights || section.base_model.empty()) section.model_config = Json::object();
  section.reinit_weights = false;
  section.base_model_config.reset();
  section.base_model = base;
  std::vector<ComparedModel> out{{base, section, {}, adapters.empty() ? "" : adapters[0]}};
  for (const std::string& directory : adapters) out.push_back({directory, section, {directory}, directory});
  return out;
}

}  // namespace

bool base_is_there(const ModelSection& model) {
  if (model.base_model.empty() || model.reinit_weights) return false;
  try {
    return file_exists(model_directory(model.base_model));
  } catch (const UserError&) {
    return false;
  }
}

std::vector<ComparedModel> compared_models(const Recipe& recipe, const std::vector<std::string>& adapters,
                                           const std::optional<std::string>& base_model) {
  if (adapters.size() > 1 && std::ranges::find(adapters, "none") != adapters.end())
    throw UserError("--adapter none is the base alone, which is compared with every adapter: leave it out");
  std::vector<ComparedModel> out =
      base_model ? given_models(recipe, *base_model, adapters) : trained_models(recipe, adapters);
  for (const ComparedModel& m : out)
    for (const std::string& directory : m.adapters)
      if (!holds_adapter(directory) && !directory_has(directory, "adapters.safetensors"))
        throw UserError("{}: no adapter there; run dml train first, or name one with --adapter", directory);
  return out;
}

BaseModel open_compared(const ComparedModel& model, const Recipe& recipe, const Tokenizer& tokenizer) {
  BaseModel base = open_base_model(model.section, recipe.adapter);  // adapters may add tokens
  if (!model.vocabulary_of.empty()) fit_vocabulary(base, {model.vocabulary_of});
  append_missing_rows(base, tokens_with_rows(tokenizer, recipe.adapter), recipe.model, recipe.train.seed);
  return base;
}

}  // namespace dml
