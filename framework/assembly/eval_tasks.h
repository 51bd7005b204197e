// Reads the tasks that a recipe names in `evals`.
#pragma once

#include <string>
#include <vector>

#include "evaluate/eval_task.h"
#include "recipe/recipe.h"

namespace dml {

/// Appends the objects of a JSON-lines file to `rows`, and at most twenty errors, each with its line, to `errors`.
void read_eval_rows(const std::string& path, std::vector<EvalRow>& rows, std::vector<std::string>& errors);
/// Reads the tasks of a recipe with their rows. UserError with one line per file or row that cannot be read.
std::vector<EvalTask> eval_tasks(const EvalSection& section);

}  // namespace dml
