// From a recipe's `evals` to the tasks that are run.
#pragma once

#include <vector>

#include "evaluate/eval_task.h"
#include "recipe/recipe.h"

namespace dml {

/// The tasks of a recipe: rows are read. UserError with a line for every file or row that cannot be read.
std::vector<EvalTask> eval_tasks(const EvalSection& section);

}  // namespace dml
