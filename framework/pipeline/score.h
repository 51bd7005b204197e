// dml score: the loss of every row of a recipe's data under the base and the trained model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/scores.h"
#include "dist/comm.h"
#include "recipe/recipe.h"

namespace dml {

/// Scores every example, in the order of the sources, including those that the recipe's `scores` drop; the same on
/// every rank. `adapter` replaces the one in output_dir; "none": the base alone. A collective.
std::vector<RowScore> score_rows(const Recipe& recipe, Comm& comm, const std::optional<std::string>& adapter);

}  // namespace dml
