#include "dist/replicated.h"

#include "core/error.h"
#include "dist/strategy_rows.h"

namespace dml {

ShardRange Replicated::owned(const PartRef& unit) const {
  return updates_ == Updates::everything ? ShardRange{0, unit.size}
                                         : shard_range(unit.size, comm_.rank(), comm_.size());
}

WholeParameters Replicated::whole_parameters(const ParameterStore& store, const StateLayout& state) const {
  if (updates_ == Updates::everything) return {};
  return {store, whole_units(store), state, comm_.size(), comm_.rank()};
}

void Replicated::adopt(ParameterStore& store, const StateLayout& state) {
  store_ = &store;
  units_ = whole_units(store);
  auto owned_by_me = [this](const PartRef& unit) { return owned(unit); };
  Arena counting = Arena::measuring();
  cut_shards(store, units_, owned_by_me, state, counting);
  state_ = Arena(counting.used());
  shards_ = cut_shards(store, units_, owned_by_me, state, state_);
  whole_ = whole_parameters(store, state);
  whole_.allocate();
  for (Shard& shard : shards_)
    bind_values(shard, store, store.units()[shard.unit].value.from(shard.parameter->offset + shard.first).data);
  for (Unit& unit : store.units())
    if (unit.size > 0) comm_.broadcast(unit_bytes(store, unit), 0);
  store.widen();
  gradients_ = std::make_unique<GradientSum>(
      comm_, store, updates_ == Updates::everything ? Reduction::Sums::everywhere : Reduction::Sums::at_owner,
      options_);
}

std::span<Shard> Replicated::finish_gradients() {
  gradients_->finish();
  for (Shard& shard : shards_)
    shard.grad = {gradients_->sum(shard.unit) + shard.parameter->offset + shard.first,
                  static_cast<std::size_t>(shard.size)};
  return shards_;
}

double Replicated::squared_gradient_norm() {
  return squared_norm(comm_, units_, [this](std::size_t unit) {
    return gradients_->sum(unit) + shard_range(units_[unit].size, comm_.rank(), comm_.size()).first;
  });
}

void Replicated::publish() {
  const std::int64_t width = store_->value_width();
  std::vector<std::unique_ptr<Pending>> pending;
  for (Unit& unit : store_->units())
    if (unit.size > 0 && updates_ == Updates::own_shards && comm_.size() > 1) {
      std::byte* whole = unit.value.data;
      const std::int64_t own = shard_range(unit.size, comm_.rank(), comm_.size()).first;
      pending.push_back(
          gather_value_shards(comm_, unit.size, width, whole + own * width, whole, {"gathering of updated values"}));
    }
  for (auto& p : pending) p->wait();
  store_->widen();
}

void Replicated::on_first_rank(const std::function<void(const Show& show)>& read) {
  if (comm_.rank() == 0) read([](std::size_t) {});
}

void Replicated::end_step() {
  gradients_->end_step();
  for (Shard& shard : shards_) shard.grad = {};
}

DistributionStrategy::Memory Replicated::memory(const ParameterStore& store, const StateLayout& state,
                                                std::int64_t micro_batches_per_rank) const {
  Memory memory = GradientSum::memory(store, comm_.size(), micro_batches_per_rank, options_);
  Arena counting = Arena::measuring();
  cut_shards(
      store, whole_units(store), [this](const PartRef& unit) { return owned(unit); }, state, counting);
  memory.values = store.value_bytes();
  const WholeParameters whole = whole_parameters(store, state);
  memory.state = static_cast<std::int64_t>(counting.used()) + whole.state_bytes();
  memory.communication += whole.room_bytes();
  return memory;
}

StrategyRows replicated_rows() {
  using Strategy = std::unique_ptr<DistributionStrategy>;
  using Options = DistributionOptions;
  return {{"none",
           "one rank",
           {[](Comm& comm, const Options& options) -> Strategy {
              if (comm.size() > 1)
                throw UserError("distribution: none is for one rank, but {} ranks were started; choose ddp or zero1",
                                comm.size());
              return std::make_unique<Replicated>(comm, Replicated::Updates::everything, options);
            },
            {},
            false,
            false}},
          {"ddp",
           "every rank holds and updates everything; gradients are summed during the backward pass",
           {[](Comm& comm, const Options& options) -> Strategy {
              return std::make_unique<Replicated>(comm, Replicated::Updates::everything, options);
            },
            {},
            false}},
          {"zero1",
           "like ddp, but each rank keeps the optimizer state of its share only and updates that share",
           {[](Comm& comm, const Options& options) -> Strategy {
             return std::make_unique<Replicated>(comm, Replicated::Updates::own_shards, options);
           }}}};
}

}  // namespace dml
