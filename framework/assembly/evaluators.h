// From a recipe to what a run measures: the list of evaluators, and the metric that decides which model is the best.
#pragma once

#include <memory>
#include <vector>

#include "data/prepared.h"
#include "data/reference_scores.h"
#include "data/schedule.h"
#include "model/spec.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"
#include "train/evaluator.h"

namespace dml {

/// In the order in which they run: of the validation split, if there is one, then the recipe's `evals`. `recipe`,
/// `tokenizer`, `schedule`, that of the split, and `references` outlive them. `terms`: what the objective logs beside
/// its loss.
std::vector<std::unique_ptr<Evaluator>> make_evaluators(const Recipe& recipe, const Prepared& prepared,
                                                        const Schedule* schedule, const Tokenizer& tokenizer,
                                                        const ModelSpec& spec, const ReferenceScores& references,
                                                        std::span<const Metric> terms);

/// metric_for_best_model, greater_is_better: the metric by its name, with or without "eval_" in front. UserError with
/// the place in the recipe and the nearest name when no evaluator has it.
Metric best_metric(const RecipeFile& file, const std::vector<std::unique_ptr<Evaluator>>& evaluators);

}  // namespace dml
