// One optimizer step. Training, dml bench and the calibration of the forecast all run this code.
//
//   micro-batches of this rank { forward, backward } · exchange of gradients · decision · update · publish
//
// A step is a collective: every rank calls run_step() with the same plan.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dist/comm.h"
#include "dist/strategy.h"
#include "model/causal_lm.h"
#include "optim/optimizer.h"
#include "train/micro_batch_sums.h"
#include "train/objective.h"

namespace dml {

/// The objects that a step uses. The strategy has adopted the model's parameters.
struct StepParts {
  CausalLm& model;
  Objective& objective;
  DistributionStrategy& strategy;
  const Optimizer& optimizer;
  Comm& comm;
};

struct StepPlan {
  std::int64_t step = 0;           // counted from 0
  std::int64_t micro_batches = 0;  // of the global batch, over all ranks
  std::uint64_t seed = 0;
  double learning_rate = 0;
  double max_grad_norm = 0;  // 0: gradients are not clipped
};

struct StepResult {
  MicroBatchSum sums;    // over the global batch
  double loss = 0;       // mean
  double grad_norm = 0;  // of the mean loss, before clipping
  bool updated = false;
  std::vector<std::int64_t> nonfinite;  // micro-batches whose own loss is not a finite number

  bool finite() const;
};

/// Callbacks within a step, called in the order in which they are declared here.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  /// The hooks that the passes over the model call; an override must forward to `strategy`.
  virtual UnitHooks& hooks(UnitHooks& strategy) { return strategy; }
  /// Called around each of this rank's micro-batches.
  virtual void pass_begins() {}
  virtual void pass_ended(std::int64_t /*done*/, std::int64_t /*total*/) {}
  /// Called after all passes, before the exchange of gradients is completed.
  virtual void exchange_begins() {}
  virtual void exchange_ended() {}
  /// Whether the weights are updated. The answer must be the same on every rank, so the ranks agree on it here.
  virtual bool accepts(const StepResult& /*result*/) { return true; }
  virtual void update_begins() {}
  virtual void update_ended() {}
};

/// The number of a micro-batch within the run, which addresses its dropout masks and noise.
inline std::uint64_t micro_batch_number(std::int64_t step, std::int64_t micro_batch) {
  return (static_cast<std::uint64_t>(step) << 24) | static_cast<std::uint64_t>(micro_batch);
}

/// `load(m)`: micro-batch m of this step, 0 ≤ m < plan.micro_batches; valid until the next call. The weights stay
/// unchanged when the watcher rejects the result, or when the global batch has no trained tokens.
StepResult run_step(const StepParts& parts, const StepPlan& plan,
                    const std::function<PackedBatch(std::int64_t micro_batch)>& load, StepWatcher& watcher);

/// Tells the strategy how to run the passes of an empty micro-batch. Call once, after adopt().
void set_empty_pass(CausalLm& model, Objective& objective, DistributionStrategy& strategy);

}  // namespace dml
