// Gradients of a rank's contiguous micro-batches, and their exchange, overlapped with the last backward pass (ddp,
// zero1).
//
// Full gradient buffers form the stack of the tree (dist/gradient_tree.h). When a unit's gradient of the last
// micro-batch is final, the owner of each of its slices receives that slice of every rank's nodes and adds them up;
// where everybody needs the sums, owners then send theirs to all. In bytes this is reduce-scatter and all-gather:
// 2·(N−1)/N of the gradient for N ranks whose shares are nodes of the tree (equal powers of two), somewhat more for
// other cuts.
//
// Without the tree (a choice for full fine-tuning that is short of memory) a rank adds its micro-batches up one after
// the other in a single buffer, and these buffers are the leaves of a tree over ranks: the bits then depend on their
// number.
//
// Units start in descending order on every rank, so that waiting for room to receive cannot deadlock.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/arena.h"
#include "dist/slices.h"
#include "dist/strategy.h"

namespace dml {

class GradientSum {
 public:
  enum class Sums { at_owner, everywhere };
  GradientSum(Comm& comm, ParameterStore& store, Sums sums, bool tree);

  void begin_step(MicroBatches mine, std::int64_t total);
  void begin_micro_step(std::int64_t index);
  /// The unit's gradient of the current micro-batch is final.
  void unit_ready(std::size_t unit);
  void poll();
  /// Waits. Afterwards sum(unit) holds the sums: this rank's slice of them, or all.
  void finish();
  float* sum(std::size_t unit) const { return slots_[0][unit]; }
  void end_step();

  /// Bytes held by the rank that holds most, for equal contiguous shares.
  static DistributionStrategy::Memory memory(const ParameterStore& store, int ranks,
                                             std::int64_t micro_batches_per_rank, bool tree);

 private:
  struct Exchange {
    std::vector<std::unique_ptr<Pending>> nodes;  // one for each place of the ranks' stacks
    std::unique_ptr<Pending> sums;
    std::vector<float*> parts;
    enum { idle, collecting, spreading, done } state = idle;
  };
  struct Room {
    std::size_t unit;
    std::int64_t first;
  };

  static TreeSchedule schedule(MicroBatches share, std::int64_t total, int rank, bool tree);
  void reserve();
  void clear(std::size_t slot);
  void learn_cuts();
  void start_ready();
  void start(std::size_t unit);
  void add_up_and_spread(std::size_t unit);
  bool advance(std::size_t unit, bool block);
  float* make_room(std::size_t unit);
  Slice own(std::size_t unit) const;
  static std::int64_t room_needed(std::span<const std::int64_t> need);

  Comm& comm_;
  ParameterStore& store_;
  Sums sums_;
  bool tree_;

  MicroBatches mine_;
  std::int64_t total_ = 0, step_ = 0;
  std::int64_t micro_step_ = -1;  // of this rank's share
  TreeSchedule schedule_;

  struct Cut {
    std::int64_t first, count, total;
  };
  Cut my_cut_{};
  std::vector<Cut> cuts_, known_cuts_;  // cuts_ is received, known_cuts_ is what `nodes_` and `additions_` were made of
  std::unique_ptr<Pending> cuts_pending_;
  std::vector<std::vector<TreeNode>> nodes_;  // by rank
  Additions additions_;
  std::size_t rounds_ = 0;

  Arena gradients_, received_;
  std::vector<std::vector<float*>> slots_;  // [slot][unit]
  float* ring_ = nullptr;                   // where received slices lie, first in, first out
  std::int64_t ring_size_ = 0, ring_head_ = 0;
  std::deque<Room> rooms_;

  std::vector<Exchange> exchanges_;
  std::vector<bool> ready_;
  std::size_t next_ = 0;  // units next_ − 1, next_ − 2, … 0 are not started yet
};

}  // namespace dml
