// Strategies in which a rank keeps only its shards of the summed gradients (zero2), and also of the values (zero3),
// within groups of ranks: one group of all ranks, or several groups whose sums are added once a step (hybrid). Units,
// parts and shards are defined in nn/parameter.h and dist/shards.h.
//
//   micro-step     part 3's gradient final ─► exchange ─► own shard added to the tree's nodes (dist/gradient_tree.h)
//   meanwhile              part 2 is computed, until it needs a buffer in use (dist/part_buffers.h)
//
// Groups take contiguous ranges of a step's micro-batches. Within a group they are dealt out in turn (rank, rank + N,
// …), so after each round the owner of a shard receives the leaves of one range of the tree and keeps only the few
// nodes of its stack: each a shard, not a full buffer. The price is an exchange in every micro-step. zero3 also gathers
// a part's values before they are read (dist/sharded_values.h). So besides its shards a rank holds a few matrices, and
// never a whole layer, embedding or head.
//
// Exchanges involve all ranks: each rank makes the same passes in the same order (one without a micro-batch in the last
// round of a step runs an empty pass in finish_gradients()). All ranks start all exchanges in the same order and wait
// only for those that were started, so they cannot deadlock.
//
// Between groups, the ranks that own the same shards reduce them (dist/reduction.h) as they become final: each
// contributes the few nodes of its group's range, so the additions are those of the tree, and every group ends with the
// same sums.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "dist/frozen_shards.h"
#include "dist/gradient_rounds.h"
#include "dist/group_comm.h"
#include "dist/part_buffers.h"
#include "dist/reduction.h"
#include "dist/sharded_values.h"
#include "dist/shards.h"
#include "dist/strategy.h"
#include "dist/whole_parameters.h"

namespace dml {

class Sharded : public DistributionStrategy {
 public:
  enum class Values { whole, sharded };
  Sharded(Comm& comm, const GroupPlace& place, Values values, const DistributionOptions& options);

  void announce(ParameterStore& store) const override;
  void adopt(ParameterStore& store, const StateLayout& state) override;
  MicroBatches share(std::int64_t total) const override;
  void begin_step(MicroBatches mine, std::int64_t total) override;
  void begin_micro_step(std::int64_t index) override;
  std::span<Shard> finish_gradients() override;
  void update(const std::function<void(std::span<const Shard>)>& rule) override {
    whole_.update(group_, shards_, rule);
  }
  void update_values(const std::function<void(std::span<const Shard>)>& rule) override {
    whole_.update(group_, shards_, rule, WholeParameters::Inputs::values);
  }
  double squared_gradient_norm() override;
  std::span<Shard> shards() override { return shards_; }
  std::span<Shard> whole_states() override { return whole_.owned(); }
  int slices() const override { return group_.size(); }
  void publish() override;
  void end_step() override;
  void poll() override;
  void gather_values() override;
  void release_values() override;
  bool holds_bf16() const override { return true; }
  bool shards_values() const override { return values_kind_ == Values::sharded; }
  void on_first_rank(const std::function<void(const Show& show)>& read) override;
  void shard_frozen(const std::vector<std::vector<kernels::Weight*>>& units) override;
  int shard_ranks() const override { return shards_values() ? group_.size() : 1; }
  std::span<const std::span<bf16>> residuals() override { return residuals_.units(); }
  Comm* replica_group() override { return across_.size() > 1 ? &across_ : nullptr; }
  bool writes_state() const override { return across_.rank() == 0; }
  Memory memory(const ParameterStore& store, const StateLayout& state,
                std::int64_t micro_batches_per_rank) const override;

  void before_forward(int unit) override { enter(static_cast<std::size_t>(unit), 1); }
  void before_backward(int unit) override;
  void before_gradient(int unit) override;
  void after_backward(int unit) override;
  void before_values(std::size_t unit, std::size_t part, int direction) override;
  void before_part_gradient(std::size_t unit, std::size_t part) override;
  void after_part_gradient(std::size_t unit, std::size_t part) override;

 private:
  /// An exchange in flight: floats [first, last) of every rank's shard of a part.
  struct ExchangeInFlight {
    std::unique_ptr<Pending> pending;
    std::size_t part = 0;
    std::int64_t first = 0, last = 0;
    bool ends = false;  // whether this is the part's last chunk
  };

  // In the following functions p is an index into parts_.
  ShardRange own(std::size_t p) const { return own(parts_[p]); }
  ShardRange own(const PartRef& part) const { return shard_range(part.size, group_.rank(), group_.size()); }
  std::vector<std::int64_t> shard_sizes(const std::vector<PartRef>& parts) const;
  UnitPart& bound(std::size_t p) const { return store_->units()[parts_[p].unit].parts[parts_[p].part]; }
  /// This rank's shard of the part's values.
  std::byte* own_values(std::size_t p) const;
  /// The offset of a shard in this rank's range of its part.
  std::int64_t in_own(const Shard& shard) const;
  bf16* residual_of(std::size_t p) const;
  /// The micro-batches of this rank's group.
  MicroBatches range(std::int64_t total) const { return contiguous_share(total, across_.rank(), across_.size()); }
  bool in_step() const { return total_ > 0; }

  float* full_gradient(std::size_t p) const { return gradients_at_ + buffers_[p].first; }
  void bind_gradient(std::size_t p);
  void launch(std::size_t p);
  void launch_chunk(std::size_t p, std::int64_t first);
  /// Waits for the oldest exchange in flight and adds the received gradients.
  void finish_oldest_exchange();
  /// Blocks until no exchange in flight matches the condition.
  template <class Condition>
  void finish_exchanges_while(Condition any) {
    while (std::ranges::any_of(in_flight_, any)) finish_oldest_exchange();
  }
  void sum_across(std::size_t p);
  void enter(std::size_t unit, int direction);

  Comm& comm_;
  mutable GroupComm group_, across_;
  Values values_kind_;
  Wire wire_;
  ParameterStore* store_ = nullptr;
  std::vector<PartRef> parts_;
  std::vector<std::size_t> first_of_;  // first_parts(parts_)
  std::vector<Shard> shards_;
  WholeParameters whole_;
  Arena state_;

  std::int64_t total_ = 0, round_ = -1;
  MicroBatches mine_;
  std::vector<GradientRound> rounds_;
  Arena sums_, gradients_;
  std::vector<std::vector<float*>> nodes_;  // [depth of the stack][part], this rank's shard
  PartBuffers buffers_;                     // of whole gradients
  float* gradients_at_ = nullptr;
  std::vector<std::int64_t> launched_;      // by part: the last round of this step, −1: none
  std::deque<ExchangeInFlight> in_flight_;  // in the order in which they began
  Residuals residuals_;
  std::unique_ptr<Reduction> between_groups_;

  std::unique_ptr<ShardedValues> values_;  // null if every rank holds all values
  std::unique_ptr<FrozenShards> frozen_;
};

}  // namespace dml
