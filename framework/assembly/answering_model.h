// Which model answers for a recipe or a base, and the settings of generation that its folder and the recipe ask for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "generate/generator.h"
#include "recipe/recipe.h"

namespace dml {

/// The model that answers: where its weights, its tokenizer and its generation_config.json lie.
struct AnsweringModel {
  ModelSection section;
  std::vector<std::string> adapters;
  std::string generation_directory;
};

/// UserError when nothing has been trained yet.
AnsweringModel answering_model(const Recipe* recipe, const std::optional<std::string>& base_model,
                               const std::vector<std::string>& adapters);

/// generation_config.json, checked; an empty object where there is none.
Json generation_config(const std::string& directory);

/// Generation options of a recipe's section (the command line is laid over them).
GenerationOptions generation_defaults(const GenerationSection& section);
/// Generation options from the model's generation_config.json, overridden by the recipe. `recipe` may be null.
/// `instead`: defaults that replace the recipe's.
GenerationOptions generation_defaults(const Recipe* recipe, const AnsweringModel& model,
                                      std::optional<GenerationOptions> instead = {});

}  // namespace dml
