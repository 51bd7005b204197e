// Strategies that keep only a slice of the summed gradients (zero2), and of the values too (zero3), within groups of ranks:
// one group of all, or several between which the sums are added up once a step (hybrid).
//
// Groups take contiguous stretches of a step's micro-batches. Within a group they are dealt out in turn (rank, rank + N, …), so that after each round the owner of a slice receives the
// leaves of one stretch of the tree and needs to keep the few nodes of its stack only: a slice each, not a full buffer.
// The price is an exchange in every micro-step. Full gradients live in few buffers: some that the layers take in turn, and one
// each for the first and the last unit, which tied models use at the same time (one for both elsewhere).
//
// zero3 gathers a unit's values before its forward and backward pass, the neighbour's ahead of time, into such buffers
// as well; the least recently used one is given up. Gathering needs all ranks: each must make the same passes in the
// same order (a rank that has no micro-batch in the last round of a step does so in finish_gradients()).
//
// Between groups, ranks of the same place reduce their slices (dist/reduction.h) as these become final: each brings the
// few nodes of its group's stretch, so the additions are the tree's again, and every group ends with the same sums.
#pragma once

#include <memory>
#include <vector>

#include "dist/frozen_shards.h"
#include "dist/group_comm.h"
#include "dist/reduction.h"
#include "dist/slices.h"
#include "dist/strategy.h"

namespace dml {

class Sharded : public DistributionStrategy {
 public:
  enum class Values { whole, sharded };
  Sharded(Comm& comm, const GroupPlace& place, Values values, const DistributionOptions& options);

  void adopt(ParameterStore& store, const StateLayout& state) override;
  MicroBatches share(std::int64_t total) const override;
  void begin_step(MicroBatches mine, std::int64_t total) override;
  void begin_micro_step(std::int64_t index) override;
  std::span<Shard> finish_gradients() override;
  double squared_gradient_norm() override;
  std::span<Shard> shards() override { return shards_; }
  double total(double over_my_shards) const override { return group_.sum(over_my_shards); }
  void publish() override;
  void end_step() override;
  void poll() override;
  void gather_values() override;
  void release_values() override;
  bool shards_values() const override { return values_ == Values::sharded; }
  void on_first_rank(const std::function<void(const Show& show)>& read) override;
  void shard_frozen(const std::vector<std::vector<kernels::Weight*>>& units) override;
  int shard_ranks() const override { return shards_values() ? group_.size() : 1; }
  std::span<const std::span<bf16>> residuals() override { return residuals_.units(); }
  bool writes_state() const override { return across_.rank() == 0; }
  Memory memory(const ParameterStore& store, const StateLayout& state,
                std::int64_t micro_batches_per_rank) const override;

  void before_forward(int unit) override { need_values(static_cast<std::size_t>(unit), 1); }
  void before_backward(int unit) override;
  void before_gradient(int unit) override;
  void after_backward(int unit) override;

 private:
  /// Where a unit's full gradient is built and the others' slices are received.
  struct GradientBuffer {
    float *full = nullptr, *received = nullptr;
    std::ptrdiff_t unit = -1;  // −1: free
  };
  struct ValueBuffer {
    float* data = nullptr;
    std::ptrdiff_t unit = -1;
    std::unique_ptr<Pending> pending;
    std::int64_t used = 0;  // time of last use
  };
  struct Flight {
    std::unique_ptr<Pending> pending;
    std::size_t buffer = 0;
    std::int64_t round = -1;  // the last one launched in this step
  };
  /// What becomes of the nodes held before a round and its leaves: additions among them, then kept[i] stays as node i.
  struct Round {
    std::size_t held = 0, leaves = 0;
    Additions additions;
    std::vector<std::size_t> kept;
  };
  static std::vector<Round> plan_rounds(MicroBatches stretch, std::int64_t total, int ranks);

  std::size_t units() const { return store_->units().size(); }
  Slice own(std::size_t unit) const { return slice(store_->units()[unit]); }
  Slice slice(const Unit& unit) const { return slice_of(unit.size, group_.rank(), group_.size()); }
  /// The micro-batches of this rank's group.
  MicroBatches stretch(std::int64_t total) const { return contiguous_share(total, across_.rank(), across_.size()); }
  bool in_step() const { return total_ > 0; }

  std::size_t end_buffer(std::size_t unit) const;
  std::size_t take_buffer(std::size_t unit);
  void bind_gradient(std::size_t unit);
  void launch(std::size_t unit, std::int64_t round);
  void land(std::size_t unit);
  void join_last_round();
  void sum_across(std::size_t unit);

  void need_values(std::size_t unit, int direction);
  ValueBuffer& start_gathering(std::size_t unit);
  void take_values(std::size_t unit);
  void show(std::size_t unit);
  void forget_values();

  Comm& comm_;
  mutable GroupComm group_, across_;
  Values values_;
  Wire wire_;
  ParameterStore* store_ = nullptr;
  std::vector<Shard> shards_;
  Arena state_;

  std::int64_t total_ = 0, round_ = -1;
  MicroBatches mine_;
  std::vector<Round> rounds_;
  Arena sums_, gradients_, own_, gathered_, shown_;
  std::vector<std::vector<float*>> nodes_;  // [place on the stack][unit], this rank's slice
  std::vector<GradientBuffer> gradient_buffers_;
  std::vector<Flight> flights_;
  std::size_t turn_ = 0;
  Residuals residuals_;
  std::unique_ptr<Reduction> between_groups_;

  std::vector<float*> own_values_;
  std::vector<ValueBuffer> value_buffers_;
  std::int64_t clock_ = 0;
  std::unique_ptr<FrozenShards> frozen_;
};

}  // namespace dml
