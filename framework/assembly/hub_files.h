// Downloads files that a recipe names and this machine lacks from the Hub, before a command runs. The ranks of a job
// may all ask: one of them downloads, the others wait (hub/fetch.h).
#pragma once

#include "recipe/recipe.h"

namespace dml {

/// base_model, base_model_config, tokenizer_config and the paths of datasets. Nothing happens for what is there, and
/// with HF_HUB_OFFLINE. UserError with the key's place, all of them at once.
void fetch_named(const RecipeFile& file);

/// load_recipe(), then fetch_named().
RecipeFile load_recipe_to_run(const std::string& path, const std::vector<Override>& overrides,
                              RecipeUse use = RecipeUse::train);

}  // namespace dml
