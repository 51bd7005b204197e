// Optimizer state in a checkpoint: planes named "stateN/PARAMETER" in the parameters' own shapes; of state in bytes, codes
// under that name and a scale per 256 elements as "scaleN/PARAMETER". Where ranks keep only slices, each writes its own file
// and a plane's name says which elements it is of: "stateN/PARAMETER[first:last]". Reading takes whatever overlaps, so a run
// goes on with any strategy on any number of ranks.
#pragma once

#include <span>
#include <stop_token>
#include <string>

#include "dist/strategy.h"

namespace dml {

/// The name of this rank's file in a checkpoint, where ranks hold slices (`sharded`) or everything.
std::string optimizer_state_file(bool sharded, int rank);
/// Writes what the state of `shards`, a rank's own or copies of them, holds. Nothing is left when it is stopped.
void write_optimizer_state(const std::string& path, std::span<const Shard> shards, const StateLayout& layout,
                           const std::stop_token& stop = {});

/// Into this rank's shards. UserError naming the first parameter whose state is not complete.
void read_optimizer_state(const std::string& checkpoint, DistributionStrategy& strategy, const StateLayout& layout);

}  // namespace dml
