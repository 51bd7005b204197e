// Checks that all values and optimizer state are finite, so that a damaged value stops the run before it spreads. Runs
// before every update (later, the value would only show in the loss of the next step), before every checkpoint, and
// after resuming.
#pragma once

#include <string>
#include <vector>

#include "dist/strategy.h"
#include "nn/state_layout.h"

namespace dml {

class FiniteState {
 public:
  /// Covers what this rank holds; the strategy has adopted the model. Both arguments outlive this object.
  FiniteState(DistributionStrategy& strategy, const StateLayout& layout);

  /// Whether everything is finite. Called in every step; does not allocate.
  bool finite() const;
  /// Names the first value that is not finite, as in "'state1' of model.norm.weight, element 7"; "" if all are finite.
  std::string damage() const;

 private:
  struct Range {
    std::string name;  // of the state tensor; "" for parameter values
    const Parameter* parameter;
    std::span<const std::byte> bytes;
    DType dtype;
  };
  static std::int64_t first_nonfinite(const Range& range);

  std::vector<Range> ranges_;
};

}  // namespace dml
