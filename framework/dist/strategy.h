// A distribution strategy divides gradients, optimizer state and values among ranks. It implements the model's hooks
// and a few calls of the trainer; ddp, the ZeRO stages and hybrid are rows of one registry. All of them produce the
// same bits for any number of ranks (dist/gradient_tree.h), unless gradients are rounded for messages (dist/wire.h).
//
// If values are sharded (zero3), a pass over the model is a collective: every rank must run the same number of
// evaluation passes, and outside of passes values may be read only between gather_values() and release_values().
// Training steps need no such care: a rank without a micro-batch runs an empty pass in finish_gradients().
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
  std::size_t unit = 0, part = 0;    // part: its index among the parts that the strategy divides (dist/shards.h)
  std::int64_t first = 0, size = 0;  // [first, first + size) of the parameter
  std::span<float> value, grad;      // grad: between finish_gradients() and end_step() only
  std::span<float> state;            // laid out by the optimizer's StateLayout
  std::span<bf16> value16 = {};      // replaces `value` if the store holds values in bfloat16

  std::span<std::byte> value_bytes() const {
    return value16.empty() ? std::as_writable_bytes(value) : std::as_writable_bytes(value16);
  }
};

struct DistributionOptions {
  /// False: a rank accumulates its micro-batches one after the other, with fewer full gradient buffers; the bits then
  /// depend on the number of ranks. No effect on strategies that hold shards only.
  bool tree = true;
  /// The dtype of gradients in messages. With bfloat16 the bits depend on the strategy and the number of ranks.
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
  /// Sets values_in_parts and gradients_in_parts of a store before adopt().
  virtual void announce(ParameterStore& /*store*/) const {}
  /// Sets the function that runs the model's passes with the strategy's hooks on an empty micro-batch.
  void set_empty_pass(std::function<void()> pass) { empty_pass_ = std::move(pass); }
  /// This rank's share of the `total` micro-batches of a global step: first, first + stride, …
  virtual MicroBatches share(std::int64_t total) const = 0;
  /// Begins a global step of `total` micro-batches. This rank computes `mine`: share(total) or, if stride is 1, any
  /// other contiguous shares that cover [0, total) over the ranks in order.
  virtual void begin_step(MicroBatches mine, std::int64_t total) = 0;
  /// Binds and zeroes the gradient buffers for micro-batch `index`, the next of this rank's share.
  virtual void begin_micro_step(std::int64_t index) = 0;
  /// Waits until this rank's shards hold the global sums of the gradients; returns those shards.
  virtual std::span<Shard> finish_gradients() = 0;
  /// Calls `rule` on everything that this rank updates, in one or several calls: shards, or whole parameters if the
  /// state's layout requires it. Between finish_gradients() and publish(). A collective.
  virtual void update(const std::function<void(std::span<const Shard>)>& rule) = 0;
  /// Like update() but outside of steps, for a rule that uses values and state only. Call publish() afterwards. A
  /// collective.
  virtual void update_values(const std::function<void(std::span<const Shard>)>& rule) { rule(shards()); }
  /// Sum of squares of the summed gradients of all units, the same on every rank and for every number of ranks. Between
  /// finish_gradients() and end_step().
  virtual double squared_gradient_norm() = 0;
  /// All shards that this rank owns, also outside of steps (for saving, loading). Parameters whose state one owner
  /// holds whole (whole_states) have none.
  virtual std::span<Shard> shards() = 0;
  /// Parameters whose whole state this rank holds, in addition to the state of its shards; their values are not set.
  virtual std::span<Shard> whole_states() { return {}; }
  /// The number of ranks that share the trained state: each holds its own shards of optimizer state, and together they
  /// hold all of it once. 1 if every rank holds everything.
  virtual int slices() const = 0;
  /// Distributes updated values to every rank. Also after shards were loaded from a checkpoint.
  virtual void publish() = 0;
  /// Ends a step: unbinds the gradients, so that evaluation can follow.
  virtual void end_step() = 0;
  /// Progresses transfers. Hooks do so as well; long computations between hooks may call it.
  virtual void poll() {}
  /// Whether the strategy supports values in bfloat16 (ParameterStore::bf16_values).
  virtual bool holds_bf16() const { return false; }
  /// Whether values are sharded. If so, a store without values can be adopted: shards are initialized as its parameters
  /// define.
  virtual bool shards_values() const { return false; }
  /// Enclose code that reads whole units outside of passes: in between, every rank has all values. A collective if
  /// values are sharded, else a no-op.
  virtual void gather_values() {}
  virtual void release_values() {}
  /// Runs `read` on rank 0 only; show(unit) makes the values of that unit readable, and may release those of others. A
  /// collective.
  using Show = std::function<void(std::size_t unit)>;
  virtual void on_first_rank(const std::function<void(const Show& show)>& read) = 0;
  /// Frozen weights by unit: a strategy that shards values may shard them as well.
  virtual void shard_frozen(const std::vector<std::vector<kernels::Weight*>>& /*units*/) {}
  /// The number of ranks among which values and frozen weights are sharded.
  virtual int shard_ranks() const { return 1; }
  /// With gradients in bfloat16, the rounding errors that this rank carries to the next step, by unit. They are part of
  /// a run's state.
  virtual std::span<const std::span<bf16>> residuals() { return {}; }
  /// The ranks, including this one, that hold the same shards; null if there is only one.
  virtual Comm* replica_group() { return nullptr; }
  /// Whether this rank writes its shards to a checkpoint: false where a lower rank holds the same shards.
  virtual bool writes_state() const { return true; }
  /// Bytes that this strategy holds on this rank by category, for the memory plan; `values` includes the store's own
  /// block. May be called before adopt().
  struct Memory {
    std::int64_t values = 0, gradients = 0, state = 0, communication = 0;
  };
  virtual Memory memory(const ParameterStore& store, const StateLayout& state,
                        std::int64_t micro_batches_per_rank) const = 0;

 protected:
  std::function<void()> empty_pass_;
};

/// Gathers the values, and releases them at the end of the scope, also after an exception.
class GatheredValues {
 public:
  explicit GatheredValues(DistributionStrategy& strategy) : strategy_(strategy) { strategy_.gather_values(); }
  ~GatheredValues() { strategy_.release_values(); }
  GatheredValues(const GatheredValues&) = delete;
  GatheredValues& operator=(const GatheredValues&) = delete;

 private:
  DistributionStrategy& strategy_;
};

struct StrategyKind {
  using Factory = std::function<std::unique_ptr<DistributionStrategy>(Comm&, const DistributionOptions&)>;

  Factory factory;
  std::vector<std::string> keys = {};  // the strategy-specific recipe keys that this one reads
  bool shares_memory = true;           // a rank holds only a part of the training state
  bool several_ranks = true;           // supports more than one rank

  bool reads(std::string_view key) const { return std::ranges::find(keys, key) != keys.end(); }

  std::unique_ptr<DistributionStrategy> operator()(Comm& comm, const DistributionOptions& options) const {
    return factory(comm, options);
  }
};
/// none, ddp, …; `none` accepts a single rank only.
Registry<StrategyKind>& strategies();

}  // namespace dml
