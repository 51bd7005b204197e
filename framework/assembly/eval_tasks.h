// From a recipe's `evals` to the tasks that are run.
#pragma once

#include <string>
#include <vector>

#include "evaluate/eval_task.h"
#include "recipe/recipe.h"

namespace dml {

/// Appends the objects of a file of JSON lines; errors by line, at most twenty.
void read_eval_rows(const std::string& path, std::vector<EvalRow>& rows, std::vector<std::string>& errors);
/// The tasks of a recipe: rows are read. UserError with a line for every file or row that cannot be read.
std::vector<EvalTask> eval_tasks(const EvalSection& section);

}  // namespace dml
