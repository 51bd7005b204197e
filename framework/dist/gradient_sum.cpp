#include "dist/gradient_sum.h"

#include "core/error.h"
#include "core/profile.h"
#include "dist/float_work.h"

namespace dml {

GradientSum::GradientSum(Comm& comm, ParameterStore& store, Reduction::Sums sums, const DistributionOptions& options)
    : store_(store),
      rank_(comm.rank()),
      tree_(options.tree),
      residuals_(store, options.wire, comm.size()),
      reduction_(comm, sizes_of(whole_units(store)), sums, options.wire),
      ready_(store.units().size()) {}

void GradientSum::begin_step(MicroBatches mine, std::int64_t total) {
  mine_ = mine;
  micro_step_ = -1;
  schedule_ = Reduction::schedule(mine, total, rank_, tree_);
  reserve();
  if (!tree_) store_.begin_gradient();
  reduction_.begin(mine, total, tree_);
}

void GradientSum::reserve() {
  auto slots = static_cast<std::size_t>(std::max(1, schedule_.slots));
  if (slots <= slots_.size()) return;
  slots_.clear();
  gradients_ = Arena(slots * static_cast<std::size_t>(store_.floats()) * sizeof(float));
  for (std::size_t s = 0; s < slots; ++s) {
    slots_.emplace_back();
    for (const Unit& unit : store_.units()) slots_[s].push_back(gradients_.take<float>(unit.size).data());
  }
}

void GradientSum::begin_micro_step(std::int64_t index) {
  ++micro_step_;
  DML_CHECK(micro_step_ < mine_.count && index == mine_.first + micro_step_, "micro-batch {} is out of turn", index);
  auto slot = static_cast<std::size_t>(schedule_.slot[static_cast<std::size_t>(micro_step_)]);
  if (tree_) store_.begin_gradient();
  for (std::size_t u = 0; u < ready_.size(); ++u)
    if (Unit& unit = store_.units()[u]; unit.size > 0) unit.grad = slots_[slot][u];
  ready_.assign(ready_.size(), false);
}

void GradientSum::unit_ready(std::size_t unit) {
  ProfileScope profiled("gradient_sum");
  DML_CHECK(micro_step_ >= 0 && !ready_[unit], "a unit's gradient became final twice");
  ready_[unit] = true;
  poll();  // starts the exchange of finished sums while this unit is added up
  store_.end_gradient(unit);
  auto step = static_cast<std::size_t>(micro_step_);
  int top = schedule_.slot[step];
  for (int n = schedule_.additions[step]; n > 0; --n, --top)
    add_in_parallel(slots_[static_cast<std::size_t>(top - 1)][unit], slots_[static_cast<std::size_t>(top)][unit],
                    store_.units()[unit].size);
  if (micro_step_ + 1 == mine_.count) reduce_unit(unit);
  poll();
}

void GradientSum::reduce_unit(std::size_t unit) {
  if (store_.units()[unit].size == 0) return;
  std::vector<float*> nodes;
  for (std::size_t n = 0; n < schedule_.nodes.size(); ++n) nodes.push_back(slots_[n][unit]);
  reduction_.ready(unit, nodes, slots_[0][unit], residuals_.of(unit));
}

void GradientSum::finish() {
  ProfileScope profiled("gradient_wait");
  DML_CHECK(micro_step_ + 1 == mine_.count, "{} of {} micro-batches were computed", micro_step_ + 1, mine_.count);
  if (mine_.count == 0)
    for (std::size_t u = ready_.size(); u-- > 0;) {
      store_.units()[u].grad = slots_[0][u];
      store_.end_gradient(u);
      reduce_unit(u);
    }
  reduction_.finish();
}

void GradientSum::end_step() {
  for (Unit& unit : store_.units()) unit.grad = nullptr;
}

DistributionStrategy::Memory GradientSum::memory(const ParameterStore& store, int ranks, std::int64_t each,
                                                 const DistributionOptions& options) {
  std::vector<MicroBatches> shares;
  int slots = 1;
  for (int r = 0; r < ranks; ++r) {
    shares.push_back({r * each, each});
    slots = std::max(slots, Reduction::schedule(shares.back(), ranks * each, r, options.tree).slots);
  }
  DistributionStrategy::Memory memory;
  memory.gradients = slots * store.floats() * static_cast<std::int64_t>(sizeof(float));
  memory.communication = Reduction::room(sizes_of(whole_units(store)), shares, ranks * each, options.tree) *
                             static_cast<std::int64_t>(sizeof(float)) +
                         Residuals::bytes(store, options.wire, ranks);
  return memory;
}

}  // namespace dml
