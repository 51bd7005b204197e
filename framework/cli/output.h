// Results go to stdout through here.
#pragma once

#include <string_view>

#include "recipe/recipe.h"

namespace dml {

/// Writes to stdout; IoError when that fails (a full disk behind a redirection).
void print(std::string_view text);
/// Notices and warnings of a recipe, to stderr.
void show_notes(const RecipeFile& file);

}  // namespace dml
