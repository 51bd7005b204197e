// The reduction tree (dist/gradient_tree.h) when the micro-batches of a range are dealt to the ranks of a group in
// turn: after each round the owner of a shard has one leaf from every rank, performs the additions that are complete,
// and keeps the nodes on its stack.
#pragma once

#include <cstddef>
#include <vector>

#include "dist/gradient_tree.h"

namespace dml {

/// The additions of a round over the nodes held before it and its leaves; kept[i] is the index of node i afterwards.
struct GradientRound {
  std::size_t held = 0, leaves = 0;
  Additions additions;
  std::vector<std::size_t> kept;
};

/// `range`: this group's micro-batches out of the `total` of a step.
std::vector<GradientRound> plan_rounds(MicroBatches range, std::int64_t total, int ranks);
/// The largest number of nodes kept after any round, at least 1.
std::size_t stack_depth(const std::vector<GradientRound>& rounds);

}  // namespace dml
