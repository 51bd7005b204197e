// Measurements of a model during training. An evaluator gives values with names, in an order and with a direction;
// the loss over the validation split is the first of them (train/validation_loss.h). Any value can choose the best
// model, decide when to stop early, and is logged.
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
  /// Called during an evaluation with the number of this rank's parts that are done.
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
  bool scheduled = false;  // by eval_steps, eval_strategy …, and after the last step
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// The values that evaluate() appends, known before the run begins.
  virtual std::vector<Metric> metrics() const = 0;
  virtual bool due(const EvaluationMoment& moment) const { return moment.scheduled; }
  /// A collective: called on all ranks, all of which append the same values. Samples count on rank 0 only. The model's
  /// memory and length are left as they were found.
  virtual void evaluate(const EvaluationContext& context, EvaluationResult& result) = 0;
  /// Bytes that it takes on this rank: of the model's working memory, and in addition to it.
  struct Memory {
    std::size_t working = 0, beside = 0;
  };
  virtual Memory memory(CausalLm& /*model*/, Objective& /*objective*/, int /*rank*/) { return {}; }
};

}  // namespace dml
