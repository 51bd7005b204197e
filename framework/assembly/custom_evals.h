// Runs the recipe's `evals` during training: each is an evaluator like the validation loss, so its metrics can select
// the best model, stop a run early and are logged in metrics.jsonl; its answers become samples.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/spec.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"
#include "train/evaluator.h"

namespace dml {

/// UserError with one line per problem: files, rows, checks.
std::vector<std::unique_ptr<Evaluator>> custom_evaluators(const Recipe& recipe, const Tokenizer& tokenizer,
                                                          const ModelSpec& spec);

}  // namespace dml
