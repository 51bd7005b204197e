// Resolves which model answers for a recipe or a base, and its generation settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "generate/generator.h"
#include "model/spec.h"
#include "recipe/recipe.h"

namespace dml {

/// The model that answers: its base, its adapters, and the folder of its generation_config.json.
struct AnsweringModel {
  ModelSection section;
  std::vector<std::string> adapters;
  std::string generation_directory;
};

/// UserError when nothing has been trained yet.
AnsweringModel answering_model(const Recipe* recipe, const std::optional<std::string>& base_model,
                               const std::vector<std::string>& adapters);

/// Whether the folder has a tokenizer of its own.
bool has_tokenizer(const std::string& directory);

/// generation_config.json, validated; an empty object if there is none.
Json generation_config(const std::string& directory);

/// The EOS tokens of config.json, and those of the generation_config.json in the folder ("" for none) that the model
/// has.
std::vector<Token> end_tokens(const ModelSpec& spec, const std::string& generation_directory);

inline constexpr std::int64_t kUsualNewTokens = 256;
inline constexpr double kUsualTemperature = 0.7;

/// Generation options of a recipe's section (the command line overrides them).
GenerationOptions generation_defaults(const GenerationSection& section);
/// Generation options of the model's generation_config.json, overridden by what the recipe sets; it may be null.
/// `instead`: the defaults.
GenerationOptions generation_defaults(const Recipe* recipe, const AnsweringModel& model,
                                      std::optional<GenerationOptions> instead = {});

}  // namespace dml
