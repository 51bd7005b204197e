// Measurements of a model during training. An evaluator returns named values in a fixed order, each with a direction
// (whether greater is better). The loss over the validation split is the first of them (train/validation_loss.h). Any
// value can select the best model and stop a run early; all are logged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "dist/strategy.h"
#include "model/causal_lm.h"
#include "train/metrics.h"
#include "train/objective.h"

namespace dml {

struct EvaluationContext {
  CausalLm& model;
  Objective& objective;
  DistributionStrategy& strategy;
  Comm& comm;
  std::int64_t step = 0;  // optimizer steps done
  /// Called after each of this rank's micro-batches with the number that are done: on all ranks equally often, and
  /// where an exception, which is then thrown on all, may end the evaluation.
  std::function<void(std::int64_t done, std::int64_t total)> part = [](std::int64_t, std::int64_t) {};
};

/// The results of all evaluators at one point of a run.
struct EvaluationResult {
  std::vector<NamedValue> values;
  std::vector<SampleMetrics> samples;
};

/// The point of a run at which an evaluation takes place.
struct EvaluationMoment {
  std::int64_t step = 0;   // optimizer steps done; 0: before training
  bool scheduled = false;  // due by eval_steps, eval_strategy …, or after the last step
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// The values that evaluate() appends, known before the run begins.
  virtual std::vector<Metric> metrics() const = 0;
  virtual bool due(const EvaluationMoment& moment) const { return moment.scheduled; }
  /// A collective: every rank appends the same values; samples are read on rank 0 only. The model's working memory and
  /// sequence lengths are restored before it returns.
  virtual void evaluate(const EvaluationContext& context, EvaluationResult& result) = 0;
  using Memory = ModelMemory;
  /// What an evaluation takes on this rank.
  virtual Memory memory(CausalLm& /*model*/, Objective& /*objective*/, int /*rank*/) { return {}; }
};

}  // namespace dml
