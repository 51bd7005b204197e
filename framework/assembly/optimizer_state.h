// Optimizer state in a checkpoint: tensors named "NAME/PARAMETER" after the state layout. Planes ("stateN") have the
// shape of their parameter; 8-bit state has its codes under that name and one scale per 256 elements as
// "scaleN/PARAMETER". If ranks hold only shards, each writes its own file, and a name includes the range of elements:
// "stateN/PARAMETER[first:last]". Reading takes any overlapping ranges, so a run can be resumed with any strategy on
// any number of ranks.
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "dist/strategy.h"

namespace dml {

/// The name of this rank's file in a checkpoint; `sharded`: ranks hold shards of the state.
std::string optimizer_state_file(bool sharded, int rank);
/// The shards and whole parameters whose state this rank holds, in this order.
std::vector<Shard> shards_with_state(DistributionStrategy& strategy);
/// Writes the state of `shards`: a rank's own, or copies of them. Leaves no file when it is stopped.
void write_optimizer_state(const std::string& path, std::span<const Shard> shards, const StateLayout& layout,
                           const std::stop_token& stop = {});

/// Reads the state of this rank's shards. UserError naming the first parameter with incomplete state.
void read_optimizer_state(const std::string& checkpoint, DistributionStrategy& strategy, const StateLayout& layout);

}  // namespace dml
