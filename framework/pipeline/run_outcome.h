// Whether a run made its model better: the loss at its beginning beside that of its result.
#pragma once

#include <string>
#include <vector>

#include "train/metrics.h"

namespace dml {

struct RunOutcome {
  std::string what;  // "validation loss", "training loss"; "" when too little was measured
  double first = 0, last = 0;
  bool worse() const { return !what.empty() && !(last <= first); }
  /// "validation loss 3.1200 → 2.0100"; "" when too little was measured.
  std::string text() const;
};

/// Validation loss of the first evaluation and of the one after `result_step`, whose weights are the result; without two
/// evaluations the mean training loss of the first and last tenth of the steps.
RunOutcome outcome_of(const std::vector<StepMetrics>& steps, const std::vector<EvalMetrics>& evals,
                      std::int64_t result_step);

}  // namespace dml
