// What `dml train` has written for a recipe, for the commands that use it.
#pragma once

#include <optional>
#include <string>

#include "recipe/recipe.h"

namespace dml {

/// The model in output_dir, of a recipe that trains in full or merges; none if there is no config.json yet.
std::optional<ModelSection> trained_model(const Recipe& recipe);

/// The adapter in output_dir, or else the one that the recipe starts from; none if there is neither.
std::optional<std::string> trained_adapter(const Recipe& recipe);

}  // namespace dml
