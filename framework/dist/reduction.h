// Sums of buffers over ranks, in the order of the reduction tree (dist/gradient_tree.h).
//
// Every rank brings, for each unit, buffers with the values of its nodes. The owner of each shard of a unit receives
// that shard of every rank's nodes and adds them up; where all ranks need the sums, owners then broadcast the sums. In
// bytes this is reduce-scatter and all-gather: 2·(N−1)/N of the unit for N ranks whose shares are nodes of the tree
// (equal powers of two), somewhat more for other cuts; half of that in bfloat16 (dist/wire.h).
//
// Units start in descending order on every rank, so that waiting for room to receive cannot deadlock.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/arena.h"
#include "dist/shards.h"
#include "dist/wire.h"

namespace dml {

class Reduction {
 public:
  enum class Sums { at_owner, everywhere };
  /// Sent to all ranks at the beginning of a step, on a channel of its own.
  struct Cut {
    std::int64_t first, count, total;  // micro-batches
  };
  static constexpr int kCutsChannel = 1;
  /// `sizes`: floats of every unit.
  Reduction(Comm& comm, std::vector<std::int64_t> sizes, Sums sums, Wire wire);

  /// Begins a step in which this rank computes `mine` of `total` micro-batches; the shares of the ranks, in order,
  /// cover all of them.
  void begin(MicroBatches mine, std::int64_t total, bool tree);
  /// This rank's nodes of a unit are final; their buffers are overwritten. The sum is written to `result`, which may be
  /// one of them.
  void ready(std::size_t unit, std::span<float* const> nodes, float* result, bf16* residual);
  void poll();
  /// Waits for all exchanges. ready() must have been called for every unit of non-zero size.
  void finish();

  /// The nodes a rank holds in the end: those of the tree, or without it a single one.
  static TreeSchedule schedule(MicroBatches share, std::int64_t total, int rank, bool tree);
  /// Floats of the receive buffer of the rank that needs the largest one, for these shares of the ranks.
  static std::int64_t room(std::span<const std::int64_t> sizes, std::span<const MicroBatches> shares,
                           std::int64_t total, bool tree);

 private:
  struct Exchange {
    std::vector<float*> mine;  // this rank's nodes
    float* result = nullptr;
    bf16* residual = nullptr;
    std::vector<std::unique_ptr<Pending>> nodes;  // one for each place of the ranks' stacks
    std::unique_ptr<Pending> sums;
    std::vector<float*> parts;
    enum { idle, waiting, collecting, spreading, done } state = idle;
  };
  struct Room {
    std::size_t unit;
    std::int64_t first;
  };

  void receive_cuts();
  void start_ready();
  void start(std::size_t unit);
  void add_up_and_spread(std::size_t unit);
  bool advance(std::size_t unit, bool block);
  float* make_room(std::size_t unit);
  ShardRange shard(std::size_t unit, int rank) const { return shard_range(sizes_[unit], rank, comm_.size()); }
  ShardRange own(std::size_t unit) const { return shard(unit, comm_.rank()); }

  Comm& comm_;
  std::vector<std::int64_t> sizes_;
  Sums sums_;
  Wire wire_;

  std::int64_t total_ = 0;
  bool tree_ = true;
  Cut my_cut_{};
  std::vector<Cut> cuts_, known_cuts_;  // cuts_ is received, known_cuts_ is what `nodes_` and `additions_` were made of
  std::unique_ptr<Pending> cuts_pending_;
  std::vector<std::vector<TreeNode>> nodes_;  // by rank
  Additions additions_;
  std::size_t rounds_ = 0;

  Arena received_;
  float* ring_ = nullptr;  // where received shards lie, first in, first out
  std::int64_t ring_size_ = 0, ring_head_ = 0;
  std::deque<Room> rooms_;

  std::vector<Exchange> exchanges_;
  std::size_t next_ = 0;  // units next_ − 1, next_ − 2, … 0 are not started yet
};

}  // namespace dml
