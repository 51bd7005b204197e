#include "dist/gradient_tree.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "dist/float_work.h"

namespace dml {
namespace {

constexpr std::int64_t kLine = 16;
constexpr std::int64_t kTreeBlock =
    4096;  // floats of one part worked on at a time: a few parts of it fit the L1/L2 cache

}  // namespace

MicroBatches contiguous_share(std::int64_t total, int rank, int ranks) {
  std::int64_t first = total * rank / ranks;
  return {first, total * (rank + 1) / ranks - first, 1};
}

MicroBatches interleaved_share(std::int64_t total, int rank, int ranks) {
  return {rank, rank < total ? (total - rank - 1) / ranks + 1 : 0, ranks};
}

TreeNode TreeStack::promoted(TreeNode node) const {
  while (node.index % 2 == 0 && (std::int64_t{1} << node.level) < total_ && (node.index + 1) << node.level >= total_)
    node = {node.level + 1, node.index / 2};
  return node;
}

int TreeStack::push(TreeNode node) {
  int additions = 0;
  node = promoted(node);
  while (node.index % 2 == 1 && !nodes_.empty() && nodes_.back() == TreeNode{node.level, node.index - 1}) {
    nodes_.pop_back();
    node = promoted({node.level + 1, node.index / 2});
    ++additions;
  }
  nodes_.push_back(node);
  return additions;
}

TreeSchedule tree_schedule(MicroBatches share, std::int64_t total) {
  DML_CHECK(share.stride == 1 && share.first >= 0 && share.count >= 0 && share.first + share.count <= total);
  TreeSchedule schedule;
  TreeStack stack(total);
  for (std::int64_t j = 0; j < share.count; ++j) {
    schedule.slot.push_back(static_cast<int>(stack.depth()));
    schedule.slots = std::max(schedule.slots, static_cast<int>(stack.depth()) + 1);
    schedule.additions.push_back(stack.push({0, share.first + j}));
  }
  schedule.nodes.assign(stack.nodes().begin(), stack.nodes().end());
  return schedule;
}

Additions additions_to_root(std::span<const TreeNode> nodes, std::int64_t total) {
  Additions result;
  TreeStack stack(total);
  std::vector<int> part;  // the part that holds each entry of the stack
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    part.push_back(static_cast<int>(i));
    for (int n = stack.push(nodes[i]); n > 0; --n) {
      int from = part.back();
      part.pop_back();
      result.emplace_back(part.back(), from);
    }
  }
  DML_CHECK(stack.depth() == 1 && stack.nodes()[0].index == 0 && (std::int64_t{1} << stack.nodes()[0].level) >= total,
            "the nodes do not cover {} micro-batches", total);
  return result;
}

void add_floats(float* to, const float* from, std::int64_t size) {
  for (std::int64_t i = 0; i < size; i += kLine)
    for (int k = 0; k < kLine; ++k) to[i + k] += from[i + k];
}

void add_parts(std::span<float* const> parts, const Additions& additions, std::int64_t size, float* result) {
  DML_CHECK(size % kLine == 0);
  parallel_ranges(size, kTreeBlock, [&](std::int64_t first, std::int64_t last) {
    for (auto [to, from] : additions) add_floats(parts[to] + first, parts[from] + first, last - first);
    if (result != parts[0])
      std::memcpy(result + first, parts[0] + first, static_cast<std::size_t>(last - first) * sizeof(float));
  });
  count_work(FloatWork::add, size * std::ssize(additions));
  if (result != parts[0]) count_work(FloatWork::copy, size);
}

}  // namespace dml
