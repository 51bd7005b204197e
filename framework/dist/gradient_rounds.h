// The reduction tree (dist/gradient_tree.h) where the ranks of a group take the micro-batches of a range in turn: after
// each round the owner of a shard has a leaf from every rank, adds up what is complete, and keeps the nodes of its
// stack.
#pragma once

#include <cstddef>
#include <vector>

#include "dist/gradient_tree.h"

namespace dml {

/// The additions of a round, among the nodes held before it and its leaves; afterwards kept[i] is node i.
struct GradientRound {
  std::size_t held = 0, leaves = 0;
  Additions additions;
  std::vector<std::size_t> kept;
};

/// `range`: the group's micro-batches of a step of `total`.
std::vector<GradientRound> plan_rounds(MicroBatches range, std::int64_t total, int ranks);
/// The largest number of nodes kept after any round, at least 1.
std::size_t stack_depth(const std::vector<GradientRound>& rounds);

}  // namespace dml
