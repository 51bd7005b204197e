// Distribution strategies of plug-ins. Every rank works like a single rank (dist/replicated.h) until its gradients are
// summed; then the plug-in combines the gradients of all ranks.
#include "dist/replicated.h"
#include "plugin/adapters.h"
#include "plugin/tables.h"

namespace dml {
namespace {

class Between : public plugin::Ranks {
 public:
  explicit Between(Comm& comm) : comm_(comm) {}
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  void exchange(std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> receive) override {
    const auto ranks = static_cast<std::size_t>(size()), me = static_cast<std::size_t>(rank());
    if (send.size() != ranks || receive.size() != ranks)
      throw UserError("exchange() got {} entries to send and {} to receive; there are {} ranks", send.size(),
                      receive.size(), ranks);
    if (send[me].size() != receive[me].size())
      throw UserError("exchange() got {} bytes to send from rank {} to itself, and {} to receive", send[me].size(), me,
                      receive[me].size());
    comm_.exchange({send.begin(), send.end()}, {receive.begin(), receive.end()}, {"exchange of a plug-in"})->wait();
  }

 private:
  Comm& comm_;
};

class PluginStrategy : public DistributionStrategy {
 public:
  PluginStrategy(Origin origin, std::unique_ptr<plugin::Strategy> rule, Comm& comm, const DistributionOptions& options)
      : origin_(std::move(origin)),
        rule_(std::move(rule)),
        comm_(comm),
        alone_(make_self_comm()),
        own_(*alone_, Replicated::Updates::everything, options) {}

  void adopt(ParameterStore& store, const StateLayout& state) override {
    store_ = &store;
    std::vector<std::int64_t> sizes;
    for (Unit& unit : store.units()) {
      sizes.push_back(unit.size);
      if (unit.size > 0) comm_.broadcast(unit_bytes(store, unit), 0);
    }
    guarded(origin_, [&] { rule_->begin(sizes, comm_.size()); });
    own_.adopt(store, state);
  }
  MicroBatches share(std::int64_t total) const override { return contiguous_share(total, comm_.rank(), comm_.size()); }
  void begin_step(MicroBatches mine, std::int64_t) override {
    mine_ = mine;
    const std::int64_t count = std::max<std::int64_t>(1, mine.count);
    own_.begin_step({0, count}, count);
  }
  void begin_micro_step(std::int64_t index) override { own_.begin_micro_step(index - mine_.first); }
  std::span<Shard> finish_gradients() override {
    if (mine_.count == 0) {  // this rank contributes nothing
      own_.begin_micro_step(0);
      for (std::size_t u = store_->units().size(); u-- > 0;) own_.after_backward(static_cast<int>(u));
    }
    const std::span<Shard> shards = own_.finish_gradients();
    Between ranks(comm_);
    std::size_t summed = store_->units().size();
    for (const Shard& s : shards) {  // shards are ordered by unit
      if (s.unit == summed) continue;
      summed = s.unit;
      float* unit = s.grad.data() - s.parameter->offset - s.first;
      guarded(origin_, [&] {
        rule_->sum(s.unit, {unit, static_cast<std::size_t>(store_->units()[s.unit].size)}, ranks);
      });
    }
    return shards;
  }
  void update(const std::function<void(std::span<const Shard>)>& rule) override { own_.update(rule); }
  double squared_gradient_norm() override { return own_.squared_gradient_norm(); }
  std::span<Shard> shards() override { return own_.shards(); }
  int slices() const override { return 1; }
  void publish() override {}
  void end_step() override { own_.end_step(); }
  void on_first_rank(const std::function<void(const Show& show)>& read) override {
    if (comm_.rank() == 0) read([](std::size_t) {});
  }
  Comm* replica_group() override { return &comm_; }
  Memory memory(const ParameterStore& store, const StateLayout& state,
                std::int64_t micro_batches_per_rank) const override {
    Memory memory = own_.memory(store, state, micro_batches_per_rank);
    memory.communication += guarded(origin_, [&] { return rule_->memory(store.floats(), comm_.size()); });
    return memory;
  }
  void after_backward(int unit) override { own_.after_backward(unit); }

 private:
  Origin origin_;
  std::unique_ptr<plugin::Strategy> rule_;
  Comm& comm_;
  std::unique_ptr<Comm> alone_;
  Replicated own_;
  ParameterStore* store_ = nullptr;
  MicroBatches mine_;
};

}  // namespace

void add_row(const Origin& origin, plugin::Row<plugin::Strategy> row) {
  auto make = [origin, row](Comm& comm, const DistributionOptions& options) -> std::unique_ptr<DistributionStrategy> {
    const Json arguments =
        arguments_in_plugin_args(row.arguments, arguments_of(options.plugin_args, row.name), row.name);
    return std::make_unique<PluginStrategy>(origin, make_of(origin, row, arguments), comm, options);
  };
  const StrategyKind kind{make, {}, false};
  takes_arguments(row.name);
  add_names(strategies(), row, kind);
}

}  // namespace dml
