// The rows of every distribution strategy, one function a file, in the order of lists. A new strategy is a file, and
// its name here.
#pragma once

#include <vector>

#include "dist/strategy.h"

namespace dml {

using StrategyRows = std::vector<Registry<StrategyKind>::Row>;

StrategyRows replicated_rows();
StrategyRows sharded_rows();

inline constexpr StrategyRows (*kStrategies[])() = {replicated_rows, sharded_rows};

}  // namespace dml
