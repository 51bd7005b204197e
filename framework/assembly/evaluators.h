// From a recipe to what a run measures: the list of evaluators, and the metric that decides which model is the best.
#pragma once

#include <memory>
#include <vector>

#include "assembly/eval_metrics.h"
#include "train/evaluator.h"

namespace dml {

/// In the order in which they run: of the validation split, if there is one, its loss and then the recipe's
/// `eval_metrics`; samples; the recipe's `evals`; those of plug-ins. What `from` refers to outlives them.
std::vector<std::unique_ptr<Evaluator>> make_evaluators(const EvaluatorParts& from);

/// metric_for_best_model, greater_is_better: the metric by its name, with or without "eval_" in front. UserError with
/// the place in the recipe and the nearest name when no evaluator has it.
Metric best_metric(const RecipeFile& file, const std::vector<std::unique_ptr<Evaluator>>& evaluators);

}  // namespace dml
