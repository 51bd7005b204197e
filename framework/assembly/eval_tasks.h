// Reads the tasks that a recipe names in `evals`.
#pragma once

#include <string>
#include <vector>

#include "evaluate/eval_task.h"
#include "recipe/recipe.h"

namespace dml {

/// The objects of JSON-lines files. UserError with at most twenty lines, each with its place.
std::vector<EvalRow> read_eval_rows(const std::vector<std::string>& files);
/// Reads the tasks of a recipe with their rows. UserError with one problem per file or row that cannot be
/// read.
std::vector<EvalTask> eval_tasks(const EvalSection& section);

}  // namespace dml
