// The plan of a run's memory and time.
#include <algorithm>
#include <cmath>

#include "assembly/companions.h"
#include "assembly/distribution.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/fault.h"
#include "core/memory_limits.h"
#include "core/size_text.h"
#include "diagnose/estimate.h"
#include "diagnose/requirements.h"
#include "dist/frozen_shards.h"
#include "pipeline/run_plan.h"

namespace dml {

void RunPlan::plan_memory() {
  const std::int64_t passes = (data.schedule.most_micro_batches() + comm.size() - 1) / comm.size();
  strategy->announce(model().parameters);
  auto held = strategy->memory(model().parameters, optimizer->state(), passes);
  const Schedule& plan = data.schedule;
  memory.activations = objective->measure(model(), {plan.longest(), plan.longest(), plan.most_documents()}, true);
  memory.samples = objective->extra_memory(model());
  for (auto& evaluator : evaluators) {
    const Evaluator::Memory need = evaluator->memory(model(), *objective, comm.rank());
    memory.activations = std::max(memory.activations, need.working);
    memory.samples += need.beside;
  }
  memory.trained = static_cast<std::size_t>(held.values);
  FrozenMemory frozen = frozen_memory(base, model(), source_storage(recipe.model, recipe.adapter));
  memory.frozen = frozen.mapped;
  memory.frozen -= std::min(memory.frozen, trained->unused_base_bytes());
  memory.owned = frozen.copied;
  memory.gradients = static_cast<std::size_t>(held.gradients);
  bool weights_move = trained->changes_base();
  if (memory.frozen > 0 && !weights_move && shards_frozen(recipe.distribution, *strategy, base.bytes(), comm)) {
    auto layers = frozen_of_layers(model());
    strategy->shard_frozen(layers);
    memory.frozen -= std::min(memory.frozen, FrozenShards::memory(layers, 1));
    memory.owned += FrozenShards::memory(layers, strategy->shard_ranks());
    weights_move = true;
  }
  memory.optimizer = static_cast<std::size_t>(held.state) + working_bytes(*optimizer, model().parameters);
  memory.communication = static_cast<std::size_t>(held.communication);
  memory.packed = packed_weight_bytes(model(), recipe, *strategy, weights_move, passes, memory.total());
  const std::size_t room = available_memory();
  if (!recipe.train.prepack_weights && room > 0 && still_needed(memory.activations) > room / 10 * 9) memory.packed = 0;
  if (const std::size_t need = still_needed(memory.activations); room > 0 && need > room) {
    const bool fixed = data.schedule.options().micro_batch_tokens > 0;
    const std::int64_t fitting = fixed ? 0 : largest_micro_batch();
    throw UserError("not enough memory: this run needs {} more on this host and {} is available (per rank: {}); {}",
                    size_text(need), size_text(room), plan_text(memory),
                    fitting > 0
                        ? fmt::format("use micro_batch_size: {} or less", fitting)
                        : fmt::format("{}reduce {}, set gradient_checkpointing: true, or use adapter: qlora",
                                      fixed ? "" : "even micro_batch_size: 1 does not fit: ", length_settings(recipe)));
  }
}

void RunPlan::plan_copies() {
  // Training waits for checkpoints to be written where memory, or address space, is short. A tenth of the available
  // memory is left free.
  memory.snapshot = files.planned_copies(memory.optimizer);
  const std::size_t room = available_memory(), copies = memory.snapshot * static_cast<std::size_t>(comm.local_size());
  const bool too_much = addresses_limited() || (room > 0 && still_needed(memory.activations) + copies > room / 10 * 9);
  if (comm.any(too_much)) memory.snapshot = 0;
  // Copying and direct writing use different collectives, so a rank without state of its own must follow the others.
  saves_in_background = comm.any(memory.snapshot > 0);
}

std::size_t RunPlan::still_needed(std::size_t activations) const {
  // Memory of the process and of copied or created values is already in use. Mapped weights and data are counted once
  // per host. Copies for checkpoints are optional.
  const std::size_t shared = memory.frozen + memory.data;
  const std::size_t own =
      memory.total() - shared - memory.activations + activations - memory.process - memory.owned - memory.snapshot -
      (trains_in_parts(recipe, *strategy) ? 0 : static_cast<std::size_t>(model().parameters.value_bytes()));
  return shared + own * static_cast<std::size_t>(comm.local_size());
}

std::size_t RunPlan::checkpoint_bytes() const {
  std::int64_t floats = 0;
  const StateLayout state = optimizer->state();
  for (const Unit& unit : model().parameters.units())
    for (const Parameter& p : unit.parameters)
      if (!recipe.train.save_only_model) floats += state.floats(p, p.trained_size());
  return static_cast<std::size_t>(floats) * sizeof(float) + trained->stored_bytes() + tokenizer_bytes(recipe.model);
}

std::int64_t RunPlan::largest_micro_batch() {
  const std::int64_t now = recipe.train.micro_batch_size, longest = data.schedule.longest(),
                     examples = data.schedule.most_documents();
  // Reserved, untouched memory counts as available for the system.
  const std::size_t room = available_memory();
  auto fits = [&](std::int64_t n) {
    std::int64_t tokens = (longest * n + now - 1) / now, documents = std::max<std::int64_t>(1, examples * n / now);
    return still_needed(objective->measure(model(), {tokens, tokens, documents}, true)) <= room;
  };
  std::int64_t good = 0, bad = most_tried() + 1;
  while (bad - good > 1) {
    std::int64_t middle = good == 0 && bad > 2 ? std::max<std::int64_t>(1, bad / 8) : (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

std::int64_t RunPlan::most_tried() const { return std::max<std::int64_t>(4096, recipe.train.micro_batch_size); }

std::string RunPlan::fitting_text() {
  const std::size_t room = available_memory();
  if (room == 0) return "";
  const std::int64_t most = largest_micro_batch();
  const std::string sizes = most < most_tried() ? fmt::format("up to {}", most) : fmt::format("of {} or more", most);
  return fmt::format("micro_batch_size {} fits in the {} of available memory", sizes, size_text(room));
}

double RunPlan::measured_token_seconds(double seconds) {
  start("");
  StepWatcher no_watcher;
  const std::int64_t steps = data.schedule.steps();
  auto since = Clock::now();
  std::int64_t tokens = 0;
  for (std::int64_t s = 0; s < steps && (s < 2 || seconds_since(since) < seconds); ++s) {
    fault_point("step", comm.rank(), s);
    trained->before_step(s, optimizer->state());
    const StepResult result = run_step(
        step_parts, step_plan(s), [&](std::int64_t m) { return data.loader.load(s, m); }, no_watcher);
    if (!std::isfinite(result.loss)) break;  // reported by the training
    tokens += result.sums.tokens;
    if (s == 0 && steps > 1) since = Clock::now(), tokens = 0;  // the first step includes page faults
  }
  return tokens > 0 ? seconds_since(since) / static_cast<double>(tokens) : 0;
}

double RunPlan::estimated_seconds() {
  constexpr double kTrial = 3;  // seconds
  RunSize run{.tokens = data.schedule.tokens()};
  if (data.eval_schedule) {
    const bool at_start = recipe.train.eval_on_start;
    run.evaluations = data.calendar.evaluations() + (at_start ? 1 : 0);
    run.evaluation_tokens = data.eval_schedule->tokens();
  }
  TokenTimes times = estimate_pass(model(), data.loader.load(0, 0));
  // In a small model the optimizer update and overheads can take longer than forward and backward: time whole steps.
  if (times.training * static_cast<double>(run.tokens) < kTrial * static_cast<double>(data.schedule.steps())) {
    if (const double measured = measured_token_seconds(kTrial); measured > 0) times.training = measured;
  }
  if (run.evaluations > 0 && times.evaluation * static_cast<double>(run.evaluation_tokens) < kTrial) {
    fault_point("evaluation", comm.rank());
    auto since = Clock::now();
    EvaluationResult ignored;
    for (auto& evaluator : evaluators)
      if (evaluator->due({.step = 1, .scheduled = true}))
        evaluator->evaluate({model(), *objective, *strategy, comm, 0}, ignored);
    times.evaluation = seconds_since(since) / static_cast<double>(run.evaluation_tokens);
  }
  return run_seconds(times, run, comm.size());
}

}  // namespace dml
