// Optimizer state in a checkpoint: planes named "stateN/PARAMETER" in the parameters' own shapes; of state in bytes, codes
// under that name and a scale per 256 elements as "scaleN/PARAMETER". Where ranks keep only slices, each writes its own file
// and a plane's name says which elements it is of: "stateN/PARAMETER[first:last]". Reading takes whatever overlaps, so a run
// goes on with any strategy on any number of ranks.
#pragma once

#include <string>

#include "dist/comm.h"
#include "dist/strategy.h"

namespace dml {

/// Into the folder of a checkpoint that is being written; called on every rank.
void write_optimizer_state(const std::string& folder, DistributionStrategy& strategy, const StateLayout& layout,
                           const Comm& comm);

/// Into this rank's shards. UserError naming the first parameter whose state is not complete.
void read_optimizer_state(const std::string& checkpoint, DistributionStrategy& strategy, const StateLayout& layout);

}  // namespace dml
