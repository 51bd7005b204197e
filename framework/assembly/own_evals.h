// The recipe's `evals` during training: each is an evaluator like the validation loss, so that its metrics choose the
// best model, stop a run early and stand in metrics.jsonl; answers become samples.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "assembly/eval_prompts.h"
#include "recipe/recipe.h"
#include "train/evaluator.h"

namespace dml {

/// UserError with a line for everything that is wrong with them: files, rows, checks.
std::vector<std::unique_ptr<Evaluator>> own_evaluators(const Recipe& recipe, const Tokenizer& tokenizer,
                                                       const ModelSpec& spec);

}  // namespace dml
