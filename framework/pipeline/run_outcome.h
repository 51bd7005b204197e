// Whether a run improved its model: compares the loss, or the reward, at its beginning with that of its result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/metrics.h"

namespace dml {

inline constexpr const char* kValidationLoss = "validation loss";

struct RunOutcome {
  std::string what;  // "reward", kValidationLoss, "training loss"; "" when too little was measured
  double first = 0, last = 0;
  bool greater_is_better = false;
  double noise = 0;  // standard error of last − first, since each step has other examples; 0 for evaluations
  std::size_t tenth = 0, steps = 0;  // first and last are means over `tenth` of so many steps; 0 for evaluations
  /// Whether the result is worse by clearly more than noise.
  bool worse() const;
  /// "validation loss 3.1200 → 2.0100"; "" when too little was measured.
  std::string text() const;
};

/// The mean rewards of the steps that sampled (rl: grpo); empty if a run has none. The loss of such a run is near 0
/// whatever it learns.
std::vector<double> rewards_of(const std::vector<StepMetrics>& steps);
/// The mean of the last tenth of the rewards; unset without rewards, NaN if none of them is finite.
std::optional<double> last_reward(const std::vector<StepMetrics>& steps);

/// The means over the first and the last tenth of the steps, at least one step each, whatever the number of steps: of
/// rewards if there are any, else of the training loss. A step that was skipped has no value and does not count.
RunOutcome outcome_of_tenths(const std::vector<StepMetrics>& steps);

/// With rewards, their means over the first and last tenth of those steps, and never a loss. Else the validation loss
/// of the first evaluation and of the one after `result_step`, whose weights are the result; without two evaluations,
/// the mean training loss of the first and last tenth of the steps, which are at least 10.
RunOutcome outcome_of(const std::vector<StepMetrics>& steps, const std::vector<EvalMetrics>& evals,
                      std::int64_t result_step);

}  // namespace dml
