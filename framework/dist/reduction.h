// Sums of buffers over ranks, in the order of the reduction tree (dist/gradient_tree.h).
//
// For each unit, every rank contributes buffers with the values of its tree nodes. The owner of each shard of a unit
// receives that shard of all nodes and adds them; if all ranks need the sums, owners then broadcast them. In bytes this
// is reduce-scatter and all-gather: 2·(N−1)/N of the unit for N ranks whose shares are nodes of the tree (equal powers
// of two), somewhat more for other shares; half of that in bfloat16 (dist/wire.h).
//
// Units start in descending order on every rank, so waiting for free receive memory cannot deadlock.
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
  /// A rank's share of the micro-batches; sent to all ranks at the beginning of a step, on a channel of its own.
  struct Share {
    std::int64_t first, count, total;  // micro-batches
  };
  static constexpr int kSharesChannel = 1;
  /// `sizes`: number of floats of every unit.
  Reduction(Comm& comm, std::vector<std::int64_t> sizes, Sums sums, Wire wire);

  /// Begins a step in which this rank computes `mine` of `total` micro-batches; the shares of the ranks, in order,
  /// cover all of them.
  void begin(MicroBatches mine, std::int64_t total, bool tree);
  /// Call when this rank's nodes of a unit are final; their buffers are overwritten. The sum is written to `result`,
  /// which may be one of them.
  void ready(std::size_t unit, std::span<float* const> nodes, float* result, bf16* residual);
  void poll();
  /// Waits for all exchanges. ready() must have been called for every unit of non-zero size.
  void finish();

  /// The nodes that a rank holds at the end of its share: those of the tree, or a single one without the tree.
  static TreeSchedule schedule(MicroBatches share, std::int64_t total, int rank, bool tree);
  /// Size in floats of the largest receive buffer that any rank needs for these shares.
  static std::int64_t room(std::span<const std::int64_t> sizes, std::span<const MicroBatches> shares,
                           std::int64_t total, bool tree);

 private:
  struct Exchange {
    std::vector<float*> mine;  // this rank's nodes
    float* result = nullptr;
    bf16* residual = nullptr;
    std::vector<std::unique_ptr<Pending>> nodes;  // one per position of the ranks' stacks
    std::unique_ptr<Pending> sums;
    std::vector<float*> parts;
    enum { idle, waiting, collecting, broadcasting, done } state = idle;
  };
  struct Room {
    std::size_t unit;
    std::int64_t first;
  };

  void receive_shares();
  void start_ready();
  void start(std::size_t unit);
  void sum_and_broadcast(std::size_t unit);
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
  Share my_share_{};
  std::vector<Share> shares_,
      known_shares_;  // received in this step; those that nodes_ and additions_ were computed from
  std::unique_ptr<Pending> shares_pending_;
  std::vector<std::vector<TreeNode>> nodes_;  // by rank
  Additions additions_;
  std::size_t rounds_ = 0;

  Arena received_;
  float* ring_ = nullptr;  // ring buffer of received shards
  std::int64_t ring_size_ = 0, ring_head_ = 0;
  std::deque<Room> rooms_;

  std::vector<Exchange> exchanges_;
  std::size_t next_ = 0;  // units next_ − 1, next_ − 2, … 0 are not started yet
};

}  // namespace dml
