// One optimizer step, written once: training, dml bench and the forecast's calibration run this and nothing else.
//
//   micro-batches of this rank { forward, backward } · exchange of gradients · decision · update · publish
//
// All of it is a collective: every rank calls run_step() with the same plan.
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
  std::int64_t step = 0;           // counts from 0
  std::int64_t micro_batches = 0;  // of all ranks together
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

/// Callbacks within a step. The calls come in the order in which they are declared here.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  /// The hooks that passes over the model call; they pass everything on to the strategy's.
  virtual UnitHooks& hooks(UnitHooks& strategy) { return strategy; }
  /// Around each of this rank's micro-batches.
  virtual void pass_begins() {}
  virtual void pass_ended(std::int64_t /*done*/, std::int64_t /*total*/) {}
  /// All passes are done; the exchange of gradients is completed next.
  virtual void exchange_begins() {}
  virtual void exchange_ended() {}
  /// Whether the weights are updated; the same answer on every rank, so what it depends on must be agreed here.
  virtual bool accepts(const StepResult& /*result*/) { return true; }
  virtual void update_begins() {}
  virtual void update_ended() {}
};

/// The number of a micro-batch since the start of the run, which addresses its dropout masks and noise.
inline std::uint64_t micro_batch_number(std::int64_t step, std::int64_t micro_batch) {
  return (static_cast<std::uint64_t>(step) << 24) | static_cast<std::uint64_t>(micro_batch);
}

/// `load(m)`: micro-batch m of this step, 0 ≤ m < plan.micro_batches; valid until the next call. Nothing is updated
/// when the watcher does not accept the result, or when nothing in the global batch is trained.
StepResult run_step(const StepParts& parts, const StepPlan& plan,
                    const std::function<PackedBatch(std::int64_t micro_batch)>& load, StepWatcher& watcher);

/// Gives the strategy the passes of an empty micro-batch; call once, after adopt().
void set_empty_pass(CausalLm& model, Objective& objective, DistributionStrategy& strategy);

}  // namespace dml
