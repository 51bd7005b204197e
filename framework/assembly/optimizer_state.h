// Optimizer state in a checkpoint: tensors named "NAME/PARAMETER" as the layout names them. Planes ("stateN") have the
// parameters' own shapes; of state in bytes, codes have that name and a scale per 256 elements is "scaleN/PARAMETER".
// Where ranks keep only slices, each writes its own file and a name says which elements it is of:
// "stateN/PARAMETER[first:last]". Reading takes whatever overlaps, so a run is resumed with any strategy on any number
// of ranks.
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "dist/strategy.h"

namespace dml {

/// The name of this rank's file in a checkpoint, where ranks hold slices (`sharded`) or everything.
std::string optimizer_state_file(bool sharded, int rank);
/// The slices and whole parameters of which this rank holds state, in this order.
std::vector<Shard> shards_with_state(DistributionStrategy& strategy);
/// Writes what the state of `shards`, a rank's own or copies of them, holds. Nothing is left when it is stopped.
void write_optimizer_state(const std::string& path, std::span<const Shard> shards, const StateLayout& layout,
                           const std::stop_token& stop = {});

/// Into this rank's shards. UserError naming the first parameter whose state is not complete.
void read_optimizer_state(const std::string& checkpoint, DistributionStrategy& strategy, const StateLayout& layout);

}  // namespace dml
