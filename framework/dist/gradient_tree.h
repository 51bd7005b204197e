// The order in which gradients of micro-batches are added, so that bits depend on neither ranks nor threads.
//
// Over the micro-batches 0 … total−1 of one optimizer step stands one binary tree: node (level, index) covers
// [index·2^level, (index+1)·2^level) ∩ [0, total), and its value is left + right, or left alone where right is empty. A
// rank that computes some micro-batches one after the other keeps a stack of the largest nodes it can complete (about
// log2 of them); the owner of a shard of the gradient collects these nodes from all ranks and adds them up by the same
// rule. Every float addition is one of the tree's, whichever rank performs it.
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

/// [0, total) cut into contiguous shares that differ by at most one.
MicroBatches contiguous_share(std::int64_t total, int rank, int ranks);
/// Micro-batches rank, rank + ranks, … of [0, total).
MicroBatches interleaved_share(std::int64_t total, int rank, int ranks);

struct TreeNode {
  int level = 0;
  std::int64_t index = 0;
  bool operator==(const TreeNode&) const = default;
};

/// The nodes complete so far. Node values live elsewhere, one buffer per place on the stack.
class TreeStack {
 public:
  explicit TreeStack(std::int64_t total) : total_(total) {}
  /// Pushes a node (nodes come in the order of their micro-batches) and returns the number of additions due: each adds
  /// the topmost buffer to the one below and pops it.
  int push(TreeNode node);
  std::span<const TreeNode> nodes() const { return nodes_; }
  std::size_t depth() const { return nodes_.size(); }

 private:
  /// A node without a right sibling is its own parent.
  TreeNode promoted(TreeNode node) const;

  std::int64_t total_;
  std::vector<TreeNode> nodes_;
};

/// The schedule of a rank with a contiguous share: micro-batch number j goes to buffer slot[j], followed by
/// additions[j] additions from the top; in the end buffer i holds nodes[i].
struct TreeSchedule {
  std::vector<int> slot, additions;
  std::vector<TreeNode> nodes;
  int slots = 0;  // buffers needed
};
TreeSchedule tree_schedule(MicroBatches share, std::int64_t total);

/// Adds parts[second] to parts[first], pair by pair; the tree's value is then in part 0.
using Additions = std::vector<std::pair<int, int>>;
/// The additions that bring nodes which cover [0, total) in order to the root.
Additions additions_to_root(std::span<const TreeNode> nodes, std::int64_t total);

/// to += from. The length is a multiple of 16.
void add_floats(float* to, const float* from, std::int64_t size);
/// Runs the additions over parts of `size` floats (a multiple of 16), block by block while the block is in cache, and
/// copies the value to `result` (which may be one of the parts).
void add_parts(std::span<float* const> parts, const Additions& additions, std::int64_t size, float* result);

}  // namespace dml
