// Makes a recipe's evaluators, and finds the metric that decides which model is the best.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "assembly/eval_metrics.h"
#include "train/evaluator.h"

namespace dml {

/// The evaluators in the order in which they run: for a validation split, its loss and then the recipe's
/// `eval_metrics`; samples; the recipe's `evals`; those of plug-ins. The objects that `from` refers to outlive them.
std::vector<std::unique_ptr<Evaluator>> make_evaluators(const EvaluatorParts& from);

/// The metrics of a validation split, without losses of single datasets, which depend on the data. Not for rewards
/// (PreferenceSection::sampling()), whose metrics depend on their sources.
std::vector<Metric> metrics_of_split(const Recipe& recipe);

/// The error message, with the nearest name, if none of the measured metrics is metric_for_best_model `wanted`, which
/// may lack the "eval_" in front; else "".
std::string fault_of_best_metric(const std::string& wanted, const std::vector<Metric>& measured);
/// metric_for_best_model, greater_is_better: the metric by its name, with or without "eval_" in front. UserError with
/// the place in the recipe and the nearest name when no evaluator has it.
Metric best_metric(const RecipeFile& file, const std::vector<std::unique_ptr<Evaluator>>& evaluators);

}  // namespace dml
