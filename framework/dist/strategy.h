// How gradients, optimizer state and values are spread over ranks. A strategy answers the model's hooks and the
// trainer's few calls; ddp, the ZeRO stages and hybrid are rows of one registry. All of them give the same bits, on any
// number of ranks (dist/gradient_tree.h), unless gradients travel rounded (dist/wire.h).
//
// Where values are sharded (zero3), a pass over the model is a collective: every rank must make the same number of
// evaluation passes, and values are read outside of passes only between gather_values() and release_values(). Training
// steps need no care: a rank without a micro-batch makes the pass without one in finish_gradients().
//
// A training step:   begin_step(share) · for each micro-batch { begin_micro_step · forward, backward (hooks) }
//                    · finish_gradients · squared_gradient_norm · update the shards · publish · end_step
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/registry.h"
#include "dist/comm.h"
#include "dist/gradient_tree.h"
#include "dist/wire.h"
#include "kernels/weight.h"
#include "nn/hooks.h"
#include "nn/parameter.h"
#include "nn/state_layout.h"

namespace dml {

/// A shard: the range of one parameter that this rank updates.
struct Shard {
  const Parameter* parameter = nullptr;
  std::size_t unit = 0, part = 0;    // part: its number among those that the strategy shares (dist/shards.h)
  std::int64_t first = 0, size = 0;  // [first, first + size) of the parameter
  std::span<float> value, grad;      // grad: between finish_gradients() and end_step() only
  std::span<float> state;            // as the optimizer's layout says
  std::span<bf16> value16 = {};      // instead of `value` where the store keeps values in bfloat16

  std::span<std::byte> value_bytes() const {
    return value16.empty() ? std::as_writable_bytes(value) : std::as_writable_bytes(value16);
  }
};

struct DistributionOptions {
  /// False: a rank adds its micro-batches up one after the other, with fewer full gradient buffers; the bits then
  /// depend on the number of ranks. No effect on strategies that hold shards only.
  bool tree = true;
  /// The type of gradients in messages. With bfloat16 the bits depend on the strategy and the number of ranks.
  Wire wire = {};
  /// Hybrid strategies: ranks per group; 0: the ranks of a host.
  int shard_size = 0;
  /// plugin_args of the recipe, for strategies of plug-ins.
  Json plugin_args = Json::object();
};

class DistributionStrategy : public UnitHooks {
 public:
  /// Adopts the store: assigns shards to ranks, allocates optimizer state (zeroed), and broadcasts rank 0's values. The
  /// store and the Comm must outlive the strategy.
  virtual void adopt(ParameterStore& store, const StateLayout& state) = 0;
  /// Sets values_in_parts and gradients_in_parts in a store that the strategy is going to adopt.
  virtual void announce(ParameterStore& /*store*/) const {}
  /// Sets the function that runs the model's passes with the strategy's hooks on an empty micro-batch.
  void set_empty_pass(std::function<void()> pass) { empty_pass_ = std::move(pass); }
  /// The micro-batches of a global step of `total` that this rank is to compute: first, first + stride, …
  virtual MicroBatches share(std::int64_t total) const = 0;
  /// A global step of `total` micro-batches; this rank computes `mine`: share(total), or, where stride is 1, any other
  /// contiguous cut that covers [0, total) over the ranks in order.
  virtual void begin_step(MicroBatches mine, std::int64_t total) = 0;
  /// Binds and zeroes the gradient buffers for micro-batch `index`, the next of this rank's share.
  virtual void begin_micro_step(std::int64_t index) = 0;
  /// Waits until the gradients of the shards that this rank updates are the global sums.
  virtual std::span<Shard> finish_gradients() = 0;
  /// Calls `rule` for everything that this rank must update, in one or several calls: shards, or whole parameters where
  /// the state's layout asks for them. Between finish_gradients() and publish(). A collective.
  virtual void update(const std::function<void(std::span<const Shard>)>& rule) = 0;
  /// Like update() outside of steps, for a rule that needs values and state alone. Call publish() afterwards. A
  /// collective.
  virtual void update_values(const std::function<void(std::span<const Shard>)>& rule) { rule(shards()); }
  /// Sum of squares of the summed gradients of all units, the same on every rank and for every number of ranks. Between
  /// finish_gradients() and end_step().
  virtual double squared_gradient_norm() = 0;
  /// All shards that this rank owns, also outside of a step (saving, loading). Parameters whose state is held whole by
  /// an owner (whole_states) have none.
  virtual std::span<Shard> shards() = 0;
  /// Parameters whose whole state this rank holds in addition to that of its shards; without values.
  virtual std::span<Shard> whole_states() { return {}; }
  /// Sum over ranks of a quantity each computed over its own shards (identical everywhere for replicated shards).
  virtual double total(double over_my_shards) const = 0;
  /// Distributes updated values to every rank. Also after shards were loaded from a checkpoint.
  virtual void publish() = 0;
  /// Unbinds the gradients (evaluation).
  virtual void end_step() = 0;
  /// Progresses transfers. Hooks do so, too; long computations between hooks may call it.
  virtual void poll() {}
  /// Whether the strategy supports values in bfloat16 (ParameterStore::bf16_values).
  virtual bool holds_bf16() const { return false; }
  /// Whether values are sharded. If so, a store may have no values yet when it defines how its parameters are
  /// initialised.
  virtual bool shards_values() const { return false; }
  /// Brackets the reading of whole units outside forward and backward: all values are there in between, on every rank.
  /// A collective where values are sharded, else nothing.
  virtual void gather_values() {}
  virtual void release_values() {}
  /// Runs `read` on rank 0 alone; `show(unit)` makes that unit's values readable, and may hide others'. A collective.
  using Show = std::function<void(std::size_t unit)>;
  virtual void on_first_rank(const std::function<void(const Show& show)>& read) = 0;
  /// Frozen weights by unit: a strategy that shards values may shard them as well.
  virtual void shard_frozen(const std::vector<std::vector<kernels::Weight*>>& /*units*/) {}
  /// The ranks within which values and frozen weights are sharded.
  virtual int shard_ranks() const { return 1; }
  /// With gradients in bfloat16: the rounding errors that this rank carries to the next step, by unit. Part of the
  /// state of a run.
  virtual std::span<const std::span<bf16>> residuals() { return {}; }
  /// The ranks that hold the same shards as this one, this one included; null where there are no others.
  virtual Comm* replica_group() { return nullptr; }
  /// Whether this rank writes its shards to a checkpoint: false where a lower rank holds the same shards.
  virtual bool writes_state() const { return true; }
  /// Bytes this strategy holds on this rank, by kind, for the memory plan; `values` includes the store's own block.
  /// Valid before adopt() too.
  struct Memory {
    std::int64_t values = 0, gradients = 0, state = 0, communication = 0;
  };
  virtual Memory memory(const ParameterStore& store, const StateLayout& state,
                        std::int64_t micro_batches_per_rank) const = 0;

 protected:
  std::function<void()> empty_pass_;
};

struct StrategyKind {
  using Factory = std::function<std::unique_ptr<DistributionStrategy>(Comm&, const DistributionOptions&)>;

  Factory factory;
  std::vector<std::string> keys = {};  // settings of a recipe that only some strategies read: those that this one does
  bool shares_memory = true;           // a rank holds a part of the training state only
  bool several_ranks = true;           // works on more than one rank

  bool reads(std::string_view key) const { return std::ranges::find(keys, key) != keys.end(); }

  std::unique_ptr<DistributionStrategy> operator()(Comm& comm, const DistributionOptions& options) const {
    return factory(comm, options);
  }
};
/// none, ddp, … ; `none` refuses more than one rank.
Registry<StrategyKind>& strategies();

}  // namespace dml
