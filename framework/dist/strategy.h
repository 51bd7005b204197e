// How gradients, optimizer state and values are spread over ranks. A strategy answers the model's four hooks and the
// trainer's few calls; ddp and the ZeRO stages are rows of one registry.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/registry.h"
#include "dist/comm.h"
#include "nn/hooks.h"
#include "nn/parameter.h"

namespace dml {

/// A slice of one parameter that this rank must update.
struct Shard {
  const Parameter* parameter = nullptr;
  std::size_t unit = 0;
  std::int64_t first = 0;            // offset inside the parameter
  std::span<float> value, grad;
  std::span<float> state;            // state_floats × value.size(), one plane behind the other
};

class DistributionStrategy : public UnitHooks {
 public:
  /// Takes over the store: decides who owns what, allocates gradients and optimizer state (`state_floats` planes),
  /// makes rank 0's values everybody's.
  virtual void adopt(ParameterStore& store, int state_floats) = 0;
  /// A global step of `total` micro-batches; this rank computes [first, first + count).
  virtual void begin_step(std::int64_t first, std::int64_t count, std::int64_t total) = 0;
  /// Binds and zeroes the gradient buffers for micro-batch `index` (first ≤ index < first + count).
  virtual void begin_micro_step(std::int64_t index) = 0;
  /// Waits; the global sum of gradients of the slices this rank must update.
  virtual std::span<Shard> finish_gradients() = 0;
  /// All slices this rank owns, also outside a step (saving, loading).
  virtual std::span<Shard> shards() = 0;
  /// Sum over ranks of a quantity each computed over its own shards (identical everywhere for replicated shards).
  virtual double total(double over_my_shards) const = 0;
  /// Makes updated values visible to every rank.
  virtual void publish() = 0;
  /// Unbinds the gradients (evaluation).
  virtual void end_step() = 0;
  /// Bytes this strategy holds on this rank, by kind, for the memory plan. Valid before adopt() too.
  struct Memory { std::int64_t gradients = 0, state = 0, communication = 0; };
  virtual Memory memory(const ParameterStore& store, int state_floats, std::int64_t micro_batches_per_rank) const = 0;
};

using StrategyFactory = std::unique_ptr<DistributionStrategy> (*)(Comm&);
/// none, ddp, … ; `none` refuses more than one rank.
Registry<StrategyFactory>& strategies();

}  // namespace dml
