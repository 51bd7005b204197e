// The files that a recipe names, and digests of them. A checkpoint records those of its reward models, evaluations and
// starting adapter, so that a resumed run has the same; a sweep repeats a run whose inputs have changed.
#pragma once

#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace dml {

/// The recipe's own file and all files that a training reads, as far as they exist; other names as they stand there.
std::vector<std::string> input_files(const RecipeFile& file);
/// Digest of the contents of the reward models' files; "" without reward models.
std::string digest_of_reward_models(const PreferenceSection& section);
/// Of the rows and options of the evaluations; "" without evaluations. UserError when a row cannot be read.
std::string digest_of_evals(const EvalSection& section);
/// Of adapter_config.json in an adapter's folder and, with `weights`, of the adapter's weights.
std::string digest_of_adapter(const std::string& folder, bool weights);
/// Of the settings, except output_dir, and the sizes and times of all files that a training reads. What does not exist
/// counts by its name.
std::string digest_of_inputs(RecipeFile file);

}  // namespace dml
