// Strategies that keep only a slice of the summed gradients (zero2), and of the values too (zero3), within groups of ranks:
// one group of all, or several between which the sums are added up once a step (hybrid).
//
// Groups take contiguous stretches of a step's micro-batches. Within a group they are dealt out in turn (rank, rank + N,
// …), so that after each round the owner of a slice receives the leaves of one stretch of the tree and needs to keep the
// few nodes of its stack only: a slice each, not a full buffer. The price is an exchange in every micro-step.
//
// Units come in parts (nn/parameter.h), each of them cut among the ranks by itself. Whole gradients of parts live in few
// places (dist/unit_places.h): a matrix's is exchanged while the next ones are computed, until somebody needs its place. zero3
// gathers a part's values before it is read, those of its neighbours ahead of time as far as there are places, and what lay
// there is given up. So a rank holds some matrices beside its share, and never a whole layer, embedding or head.
//
// Exchanges need all ranks: each must make the same passes in the same order (a rank that has no micro-batch in the last
// round of a step makes an empty one in finish_gradients()). All ranks begin all exchanges in the same order, and wait only
// for what has begun: that is why nobody waits in a circle.
//
// Between groups, ranks of the same place reduce their slices (dist/reduction.h) as these become final: each brings the
// few nodes of its group's stretch, so the additions are the tree's again, and every group ends with the same sums.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "dist/frozen_shards.h"
#include "dist/group_comm.h"
#include "dist/reduction.h"
#include "dist/slices.h"
#include "dist/strategy.h"
#include "dist/unit_places.h"
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
  double squared_gradient_norm() override;
  std::span<Shard> shards() override { return shards_; }
  std::span<Shard> whole_states() override { return whole_.owned(); }
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
  Comm* replica_group() override { return across_.size() > 1 ? &across_ : nullptr; }
  bool writes_state() const override { return across_.rank() == 0; }
  Memory memory(const ParameterStore& store, const StateLayout& state,
                std::int64_t micro_batches_per_rank) const override;

  void before_forward(int unit) override { visit(static_cast<std::size_t>(unit), 1); }
  void before_backward(int unit) override;
  void before_gradient(int unit) override;
  void after_backward(int unit) override;
  void before_values(std::size_t unit, std::size_t part, int direction) override;
  void before_part_gradient(std::size_t unit, std::size_t part) override;
  void after_part_gradient(std::size_t unit, std::size_t part) override;

 private:
  /// An exchange under way: floats [first, last) of every rank's slice of a part.
  struct Flight {
    std::unique_ptr<Pending> pending;
    std::size_t stretch = 0;
    std::int64_t first = 0, last = 0;
    bool ends = false;  // the part's last one
  };
  struct Gathered {
    bool held = false;                 // the part's place is its own
    std::unique_ptr<Pending> pending;  // not there yet
  };
  /// What becomes of the nodes held before a round and its leaves: additions among them, then kept[i] stays as node i.
  struct Round {
    std::size_t held = 0, leaves = 0;
    Additions additions;
    std::vector<std::size_t> kept;
  };
  static std::vector<Round> plan_rounds(MicroBatches stretch, std::int64_t total, int ranks);

  std::size_t units() const { return store_->units().size(); }
  Slice own(std::size_t s) const { return slice(parts_[s]); }
  Slice slice(const Stretch& part) const { return slice_of(part.size, group_.rank(), group_.size()); }
  UnitPart& part(std::size_t s) const { return store_->units()[parts_[s].unit].parts[parts_[s].part]; }
  std::int64_t in_own(const Shard& shard) const;
  bf16* residual_of(std::size_t s) const {
    bf16* unit = residuals_.of(parts_[s].unit);
    return unit ? unit + parts_[s].first : nullptr;
  }
  /// The micro-batches of this rank's group.
  MicroBatches stretch(std::int64_t total) const { return contiguous_share(total, across_.rank(), across_.size()); }
  bool in_step() const { return total_ > 0; }

  // Of parts, by their number in parts_:
  float* full_gradient(std::size_t s) const { return gradients_at_ + gradient_places_[s].first; }
  void bind_gradient(std::size_t s);
  void launch(std::size_t s);
  void launch_piece(std::size_t s, std::int64_t first);
  /// Waits for the exchange that began first, and adds up what has come.
  void land();
  /// Until no exchange is under way that this is said of.
  template <class Condition>
  void land_while(Condition any) {
    while (std::ranges::any_of(flights_, any)) land();
  }
  void sum_across(std::size_t s);

  bool gathers() const { return values_ == Values::sharded && shown_.capacity() == 0; }
  void visit(std::size_t unit, int direction);
  std::size_t next_part(std::size_t s, int direction) const;
  void start_gathering(std::size_t s);
  void hold_values(std::size_t s);
  void take_values(std::size_t s);
  void forget(std::size_t s);
  void forget_values();
  void show(std::size_t unit);
  void gather_whole(std::size_t unit);

  Comm& comm_;
  mutable GroupComm group_, across_;
  Values values_;
  Wire wire_;
  ParameterStore* store_ = nullptr;
  std::vector<Stretch> parts_;
  std::vector<std::size_t> first_of_;  // by unit: its first part's number; and behind the last unit, how many there are
  std::vector<Shard> shards_;
  WholeParameters whole_;
  Arena state_;

  std::int64_t total_ = 0, round_ = -1;
  MicroBatches mine_;
  std::vector<Round> rounds_;
  Arena sums_, gradients_, own_, gathered_, shown_;
  std::vector<std::vector<float*>> nodes_;  // [place on the stack][part], this rank's slice
  UnitPlaces gradient_places_, value_places_;
  float *gradients_at_ = nullptr, *gathered_at_ = nullptr;
  std::vector<std::int64_t> launched_;  // by part: the last round of this step, −1: none
  std::deque<Flight> flights_;          // in the order in which they began
  Residuals residuals_;
  std::unique_ptr<Reduction> between_groups_;

  std::vector<float*> own_values_;
  int direction_ = 1;  // of the walk over units
  std::vector<Gathered> gathered_parts_;
  std::unique_ptr<FrozenShards> frozen_;
};

}  // namespace dml
