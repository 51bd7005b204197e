// The order in which gradients of micro-batches are added, so that bits depend on neither ranks nor threads.
//
// One binary tree covers the micro-batches 0 … total−1 of an optimizer step: node (level, index) covers [index·2^level,
// (index+1)·2^level) ∩ [0, total), and its value is left + right, or left alone if right is empty. A rank that computes
// several micro-batches keeps a stack of the largest complete nodes (about log2 of them); the owner of a shard of the
// gradient collects these nodes from all ranks and adds them by the same rule. Every float addition is one of the
// tree's, whichever rank performs it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace dml {

/// Micro-batches first, first + stride, …, `count` of them.
struct MicroBatches {
  std::int64_t first = 0, count = 0, stride = 1;
};

/// Rank's share of [0, total) divided into contiguous shares whose sizes differ by at most one.
MicroBatches contiguous_share(std::int64_t total, int rank, int ranks);
/// Micro-batches rank, rank + ranks, … of [0, total).
MicroBatches interleaved_share(std::int64_t total, int rank, int ranks);

struct TreeNode {
  int level = 0;
  std::int64_t index = 0;
  bool operator==(const TreeNode&) const = default;
};

/// The complete nodes. Their values are stored by the caller, one buffer per position of the stack.
class TreeStack {
 public:
  explicit TreeStack(std::int64_t total) : total_(total) {}
  /// Pushes a node (nodes arrive in the order of their micro-batches). Returns the number of additions to perform: each
  /// adds the topmost buffer to the one below and pops it.
  int push(TreeNode node);
  std::span<const TreeNode> nodes() const { return nodes_; }
  std::size_t depth() const { return nodes_.size(); }

 private:
  /// The parent of a node that has no right sibling and so the same value, repeatedly.
  TreeNode promoted(TreeNode node) const;

  std::int64_t total_;
  std::vector<TreeNode> nodes_;
};

/// The schedule of a rank with a contiguous share: micro-batch j is computed in buffer slot[j] and followed by
/// additions[j] additions from the top of the stack; at the end buffer i holds nodes[i].
struct TreeSchedule {
  std::vector<int> slot, additions;
  std::vector<TreeNode> nodes;
  int slots = 0;  // buffers needed
};
TreeSchedule tree_schedule(MicroBatches share, std::int64_t total);

/// Pairs (first, second): add parts[second] to parts[first], in this order. The root's value is then in part 0.
using Additions = std::vector<std::pair<int, int>>;
/// The additions that reduce nodes, which cover [0, total) in order, to the root.
Additions additions_to_root(std::span<const TreeNode> nodes, std::int64_t total);

/// to[i] += from[i]; `size` is a multiple of 16.
void add_floats(float* to, const float* from, std::int64_t size);
/// Performs the additions on parts of `size` floats (a multiple of 16), block by block so that a block stays in cache,
/// and copies the sum to `result` (which may be one of the parts).
void add_parts(std::span<float* const> parts, const Additions& additions, std::int64_t size, float* result);

}  // namespace dml
