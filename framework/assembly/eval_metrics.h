// The metrics of the validation split that a recipe may name in `eval_metrics`, one function per file. A new one is a
// file and an entry here.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/registry.h"
#include "data/prepared.h"
#include "data/reference_scores.h"
#include "data/schedule.h"
#include "model/spec.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"
#include "train/evaluator.h"

namespace dml {

/// The objects that evaluators are made from.
struct EvaluatorParts {
  const Recipe& recipe;
  const Prepared& prepared;
  const Schedule* schedule;  // of the validation split; null if there is none
  const Tokenizer& tokenizer;
  const ModelSpec& spec;
  const ReferenceScores& references;
  std::span<const Metric> terms;  // the objective's evaluated terms
};

struct EvalMetricKind {
  /// UserError when the metric does not apply to the loss or the data of a recipe.
  std::function<void(const Recipe&)> check;
  /// Makes the evaluator; called if there is a validation split. It runs after ValidationLoss at the same steps, so
  /// result.values contains eval_loss.
  std::function<std::unique_ptr<Evaluator>(const EvaluatorParts&)> make;
};
Registry<EvalMetricKind>& eval_metrics();

using EvalMetricRows = std::vector<Registry<EvalMetricKind>::Row>;

EvalMetricRows bits_per_byte_rows();

inline constexpr EvalMetricRows (*kEvalMetrics[])() = {bits_per_byte_rows};

}  // namespace dml
