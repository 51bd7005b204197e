// Checks that values and optimizer state of a run are finite, so that the run stops before others are spoiled: before
// every update (a damaged value would only show in the loss of the next step, when the update has spread it), before
// every checkpoint, and where a run is resumed.
#pragma once

#include <string>
#include <vector>

#include "dist/strategy.h"
#include "nn/state_layout.h"

namespace dml {

class FiniteState {
 public:
  /// Checks what this rank holds, after the strategy has adopted the model. Both outlive this.
  FiniteState(DistributionStrategy& strategy, const StateLayout& layout);

  /// Allocates nothing; called in every step.
  bool finite() const;
  /// The first value that is not finite: "'state1' of model.norm.weight, element 7"; "" where there is none.
  std::string damage() const;

 private:
  struct Range {
    std::string name;  // of the tensor of state; "" for values
    const Parameter* parameter;
    std::span<const std::byte> bytes;
    DType dtype;
  };
  static std::int64_t first_bad(const Range& range);

  std::vector<Range> ranges_;
};

}  // namespace dml
