// Downloads missing files that a recipe names from the Hub before a command runs. All ranks of a job may call this: one
// downloads while the others wait (hub/fetch.h).
#pragma once

#include "recipe/recipe.h"

namespace dml {

/// What a command reads of the files that a recipe names, beside the model's config and tokenizer.
struct RecipeReads {
  bool weights = true, rows = true;
};

/// Downloads base_model, base_model_config, tokenizer_config and the paths of datasets, unless they exist locally or
/// HF_HUB_OFFLINE is set; what is there afterwards is no longer `missing`. UserError with the places of all keys that
/// cannot be resolved.
void download_missing_files(RecipeFile& file, const RecipeReads& reads = {});

/// load_recipe(), then download_missing_files().
RecipeFile load_recipe_to_run(const std::string& path, const std::vector<Override>& overrides,
                              RecipeUse use = RecipeUse::train, const RecipeReads& reads = {});

/// UserError with every file that the recipe names and that does not exist, among those that a command reads.
void require_files(const RecipeFile& file, const RecipeReads& reads = {});

}  // namespace dml
