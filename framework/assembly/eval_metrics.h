// The values of the validation split that a recipe may name in `eval_metrics`, one function a file. A new one is a
// file, and its name here.
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

/// What evaluators are made from.
struct EvaluatorParts {
  const Recipe& recipe;
  const Prepared& prepared;
  const Schedule* schedule;  // of the validation split; null: there is none
  const Tokenizer& tokenizer;
  const ModelSpec& spec;
  const ReferenceScores& references;
  std::span<const Metric> terms;  // what evaluations of the objective give beside its loss
};

/// Made where there is a validation split. Runs after ValidationLoss, at the same moments: result.values has eval_loss.
/// UserError where the run's loss or data do not fit.
using MakeEvalMetric = std::function<std::unique_ptr<Evaluator>(const EvaluatorParts&)>;
Registry<MakeEvalMetric>& eval_metrics();

using EvalMetricRows = std::vector<Registry<MakeEvalMetric>::Row>;

EvalMetricRows bits_per_byte_rows();

inline constexpr EvalMetricRows (*kEvalMetrics[])() = {bits_per_byte_rows};

}  // namespace dml
