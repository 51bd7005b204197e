#include "train/step.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "optim/clip.h"

namespace dml {
namespace {

// Forward and backward of this rank's micro-batches; their sums.
std::vector<MicroBatchSum> run_passes(const StepParts& parts, const StepPlan& plan,
                                      const std::function<PackedBatch(std::int64_t)>& load, StepWatcher& watcher) {
  UnitHooks& hooks = watcher.hooks(parts.strategy);
  const MicroBatches mine = parts.strategy.share(plan.micro_batches);
  parts.strategy.begin_step(mine, plan.micro_batches);
  std::vector<MicroBatchSum> sums;
  for (std::int64_t i = 0, m = mine.first; i < mine.count; ++i, m += mine.stride) {
    parts.strategy.begin_micro_step(m);
    const PackedBatch batch = parts.objective.completed(load(m));
    watcher.pass_begins();
    const LossSums losses =
        parts.objective.train(parts.model, batch, {plan.seed, micro_batch_number(plan.step, m)}, hooks);
    sums.push_back({m, batch.size(), batch.trained(), losses});
    watcher.pass_ended(i + 1, mine.count);
  }
  return sums;
}

// A NaN without its sign bit, so that it prints as "nan".
double unsigned_nan(double x) { return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x; }

}  // namespace

StepResult run_step(const StepParts& parts, const StepPlan& plan,
                    const std::function<PackedBatch(std::int64_t micro_batch)>& load, StepWatcher& watcher) {
  if (parts.model.packed) parts.model.packed->begin_step();
  parts.objective.begin({plan.micro_batches, load, parts.model, parts.strategy, parts.comm, plan.step});
  std::vector<MicroBatchSum> mine = run_passes(parts, plan, load, watcher);
  watcher.exchange_begins();
  parts.strategy.finish_gradients();
  watcher.exchange_ended();

  StepResult result;
  const std::vector<MicroBatchSum> all = gather_sums(parts.comm, std::move(mine));
  result.sums = added_up(all);
  for (const MicroBatchSum& m : all)
    if (!std::isfinite(m.losses.loss)) result.nonfinite.push_back(m.index);
  const LossSums& losses = result.sums.losses;
  const double scale = losses.denominator > 0 ? 1 / losses.denominator : 0;
  result.loss = unsigned_nan(losses.loss * scale);
  result.grad_norm = unsigned_nan(gradient_norm(parts.strategy.squared_gradient_norm(), scale));
  const bool accepted = watcher.accepts(result);
  watcher.update_begins();
  if (accepted && scale > 0) {
    const OptimizerStep step{plan.learning_rate, plan.step, scale * clip_factor(result.grad_norm, plan.max_grad_norm)};
    parts.strategy.update([&](std::span<const Shard> shards) { parts.optimizer.step(optimizer_slices(shards), step); });
    result.updated = true;
  }
  watcher.update_ended();
  parts.strategy.publish();
  parts.strategy.end_step();
  return result;
}

bool StepResult::finite() const { return std::isfinite(loss) && std::isfinite(grad_norm); }

void set_empty_pass(CausalLm& model, Objective& objective, DistributionStrategy& strategy) {
  strategy.set_empty_pass([&model, &objective, &strategy] { objective.train(model, {}, {}, strategy); });
}

}  // namespace dml
