#include "diagnose/bench.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "assembly/base_model.h"
#include "assembly/distribution.h"
#include "assembly/job.h"
#include "assembly/objective_choice.h"
#include "assembly/optimization.h"
#include "assembly/vocabulary.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/memory_limits.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "core/rounding.h"
#include "diagnose/operation_count.h"
#include "kernels/gemm.h"
#include "optim/optimizer.h"
#include "train/moving_reference.h"
#include "train/step.h"

namespace dml {
namespace {

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Forwards the model's hooks to the strategy and measures phases: time inside of hooks is communication.
class TimedHooks : public UnitHooks {
 public:
  TimedHooks(UnitHooks& to, int head, BenchPhases& phases) : to_(to), head_(head), phases_(phases) {}

  void start() { into(phases_.forward); }
  void finish() { into(phases_.communication); }

  void before_forward(int unit) override {
    if (unit == head_) into(phases_.head);
    pass_on([&] { to_.before_forward(unit); });
  }
  void after_forward(int unit) override {
    pass_on([&] { to_.after_forward(unit); });
  }
  void before_backward(int unit) override {
    pass_on([&] { to_.before_backward(unit); });
  }
  void before_gradient(int unit) override {
    pass_on([&] { to_.before_gradient(unit); });
  }
  void after_backward(int unit) override {
    if (unit == head_) into(phases_.backward);
    pass_on([&] { to_.after_backward(unit); });
  }
  void before_values(std::size_t unit, std::size_t part, int direction) override {
    pass_on([&] { to_.before_values(unit, part, direction); });
  }
  void before_part_gradient(std::size_t unit, std::size_t part) override {
    pass_on([&] { to_.before_part_gradient(unit, part); });
  }
  void after_part_gradient(std::size_t unit, std::size_t part) override {
    pass_on([&] { to_.after_part_gradient(unit, part); });
  }

 private:
  // Starts a phase.
  void into(double& phase) {
    book();
    phase_ = &phase;
  }
  void book() {
    if (phase_) *phase_ += seconds_since(since_);
    since_ = Clock::now();
  }
  template <class F>
  void pass_on(F&& hook) {
    double* phase = phase_;
    into(phases_.communication);
    hook();
    into(*phase);
  }

  UnitHooks& to_;
  int head_;
  BenchPhases& phases_;
  double* phase_ = nullptr;
  Clock::time_point since_ = Clock::now();
};

// Times the phases of one step.
class TimedStep : public StepWatcher {
 public:
  TimedStep(DistributionStrategy& strategy, int head) : hooks_(strategy, head, phases_) {}

  UnitHooks& hooks(UnitHooks&) override { return hooks_; }
  void pass_begins() override { hooks_.start(); }
  void pass_ended(std::int64_t, std::int64_t) override { hooks_.finish(); }
  void exchange_begins() override { since_ = Clock::now(); }
  void update_begins() override { book(phases_.communication); }
  void update_ended() override { book(phases_.optimizer); }
  BenchPhases finish() {
    book(phases_.communication);
    phases_.step = seconds_since(start_);
    phases_.processor = processor_seconds() - spent_;
    return phases_;
  }

 private:
  void book(double& phase) {
    phase += seconds_since(since_);
    since_ = Clock::now();
  }

  BenchPhases phases_;
  TimedHooks hooks_;
  Clock::time_point start_ = Clock::now(), since_ = start_;
  double spent_ = processor_seconds();
};

// Micro-batches of one step; every step computes the same ones.
std::vector<SyntheticBatch> make_batches(const Recipe& recipe, const BenchOptions& options, const ModelSpec& spec,
                                         std::int64_t count) {
  const std::int64_t length = recipe.data.sequence_len, each = recipe.train.micro_batch_size;
  const auto trained =
      std::clamp<std::int64_t>(std::llround(static_cast<double>(length) * (1 - options.masked)), 1, length - 1);
  if (!options.documents.empty() && static_cast<std::int64_t>(options.documents.size()) < each * count)
    throw UserError("--documents: each step needs {} documents ({} micro-batches of {}), the file has {}", each * count,
                    count, each, options.documents.size());
  std::vector<SyntheticDocument> alike(static_cast<std::size_t>(each), {length, trained});
  std::vector<SyntheticBatch> batches;
  for (std::int64_t m = 0; m < count; ++m) {
    std::span<const SyntheticDocument> documents = alike;
    if (!options.documents.empty())
      documents =
          std::span(options.documents).subspan(static_cast<std::size_t>(m * each), static_cast<std::size_t>(each));
    batches.emplace_back(documents, spec.vocab, static_cast<std::uint64_t>(m), recipe.data.rows == RowKind::pairs);
  }
  return batches;
}

BenchPhases medians(std::vector<BenchPhases>& all) {
  BenchPhases out;
  for (double BenchPhases::*phase :
       {&BenchPhases::forward, &BenchPhases::head, &BenchPhases::backward, &BenchPhases::communication,
        &BenchPhases::optimizer, &BenchPhases::step, &BenchPhases::processor}) {
    std::ranges::sort(all, {}, phase);
    std::size_t n = all.size();
    out.*phase = (all[(n - 1) / 2].*phase + all[n / 2].*phase) / 2;
  }
  return out;
}

// Measures the rates of large products. All ranks measure at the same time, since they share the machine.
void measure_rates(Comm& comm, BenchResult& result) {
  comm.barrier();
  result.sgemm = std::max(result.sgemm, comm.sum(kernels::measured_sgemm_rate()) * threads());
  comm.barrier();
  result.product = std::max(result.product, comm.sum(kernels::measured_product_rate()));
}

TrainableModel make_model(const BaseModel& base, const Recipe& recipe, SyntheticWeights& weights,
                          const TrainedValues& values) {
  if (base.files) return make_trainable_model(base, recipe.model, recipe.adapter, recipe.train.seed, values);
  Training training = training_of(recipe.adapter, "", recipe.train.seed);
  if (training.full) training.values = values;
  TrainableModel out;
  out.model = build_model(base.spec, weights.source(), training, "model_config");
  return out;
}

// The tokens and operations of a step; the model computes positions as far as they go.
void count(const std::vector<SyntheticBatch>& batches, CausalLm& model, BenchResult& result) {
  std::int64_t longest = 0;
  for (const SyntheticBatch& b : batches) {
    PackedBatch batch = b.batch();
    longest = std::max<std::int64_t>(longest, *std::ranges::max_element(batch.positions) + 1);
    result.plan.data += static_cast<std::size_t>(batch.size()) * (2 * sizeof(Token) + sizeof(std::int32_t));
    result.tokens += batch.size();
    result.trained_tokens += batch.trained();
    result.operations += count_operations(model, batch).total();
  }
  model.set_length(longest);
}

// With rl the documents of a micro-batch are pairs, two by two; without, the lists are empty.
std::vector<std::vector<DocumentGroup>> pairs_of(const Recipe& recipe, const std::vector<SyntheticBatch>& batches) {
  std::vector<std::vector<DocumentGroup>> out(batches.size());
  if (recipe.data.rows == RowKind::text) return out;
  if (recipe.data.rows != RowKind::pairs || recipe.preference.reward_model)
    throw UserError("dml bench measures steps on texts, and on pairs (rl: dpo, orpo, simpo, cpo)");
  for (std::size_t m = 0; m < batches.size(); ++m) {
    const PackedBatch batch = batches[m].batch();
    if (batch.documents() % 2 != 0)
      throw UserError("dml bench takes the documents of a micro-batch as pairs, and this one has {}",
                      batch.documents());
    for (std::int64_t d = 0; d < batch.documents(); ++d)
      out[m].push_back({.role = d % 2 == 0 ? DocumentRole::chosen : DocumentRole::rejected,
                        .group = static_cast<std::int32_t>(d / 2)});
  }
  return out;
}

CausalLm::Shape largest(const std::vector<SyntheticBatch>& batches) {
  CausalLm::Shape out{0, 0, 0};
  for (const SyntheticBatch& b : batches) {
    out.tokens = std::max(out.tokens, b.batch().size());
    out.documents = std::max(out.documents, b.batch().documents());
  }
  out.trained = out.tokens;
  return out;
}

void hold(const DistributionStrategy::Memory& held, MemoryPlan& plan) {
  plan.trained = static_cast<std::size_t>(held.values);
  plan.gradients = static_cast<std::size_t>(held.gradients);
  plan.optimizer = static_cast<std::size_t>(held.state);
  plan.communication = static_cast<std::size_t>(held.communication);
}

// Takes the steps; the phases of those after the warmup.
std::vector<BenchPhases> measure(const StepParts& parts, const Recipe& recipe, const BenchOptions& options,
                                 std::int64_t per_step, const std::function<PackedBatch(std::int64_t)>& load,
                                 BenchResult& result) {
  std::vector<BenchPhases> measured;
  for (std::int64_t s = 0; s < options.warmup + options.steps; ++s) {
    if (s == options.warmup) reset_profile();
    if (options.before_step) options.before_step(s, parts.model.spec);
    ProfileScope whole("(between operations)");
    parts.comm.barrier();
    TimedStep watch(parts.strategy, static_cast<int>(parts.model.spec.layers) + 1);
    const StepResult step = run_step(parts,
                                     {s, per_step, static_cast<std::uint64_t>(recipe.train.seed),
                                      recipe.optim.learning_rate, recipe.optim.max_grad_norm},
                                     load, watch);
    const BenchPhases phases = watch.finish();
    if (s == 0) result.first_loss = step.loss;
    result.last_loss = step.loss;
    if (s >= options.warmup) measured.push_back(phases);
  }
  return measured;
}

}  // namespace

BenchResult bench(const Recipe& recipe, Comm& comm, const BenchOptions& options) {
  set_up_processor(recipe.train, comm);
  BenchResult result;
  result.ranks = comm.size();
  result.threads = threads();
  if (options.yardstick) measure_rates(comm, result);
  forget_peak_memory();  // the peak of the run does not include the matrices of measure_rates()
  result.plan.process = memory_use().now;

  BaseModel base = open_base_model(recipe.model, recipe.adapter);
  fit_vocabulary(base, recipe.adapter);
  auto strategy = make_strategy(recipe, comm);
  SyntheticWeights weights(base.spec, recipe.model, recipe.adapter);
  const TrainableModel trainable = make_model(base, recipe, weights, trained_values(recipe, *strategy));
  CausalLm& model = *trainable.model;
  set_recompute_policy(model, recipe);

  const std::int64_t per_step = recipe.train.micro_batches_per_step(comm.size());
  std::vector<SyntheticBatch> batches = make_batches(recipe, options, base.spec, per_step);
  count(batches, model, result);
  auto optimizer = make_optimizer(recipe);

  strategy->announce(model.parameters);
  const std::int64_t passes = ceil_div(per_step, comm.size());
  auto held = strategy->memory(model.parameters, optimizer->state(), passes);
  const auto pairs = pairs_of(recipe, batches);
  const auto made =
      make_objective(recipe, {}, {reference_source(recipe, model), [&] { swap_reference(*optimizer, *strategy); }});
  Objective& objective = *made;
  result.plan.activations = objective.measure(model, largest(batches), true);
  hold(held, result.plan);
  result.plan.optimizer += working_bytes(*optimizer, model.parameters);
  result.plan.owned = weights.bytes();
  if (recipe.adapter.adapter != AdapterKind::none) result.plan.frozen = base.bytes();
  result.parameters = base.spec.parameters();
  result.trained = model.parameters.trainable();
  result.plan.packed = packed_weight_bytes(model, recipe, *strategy, false, passes, result.plan.total());
  if (result.plan.packed > 0) model.packed = std::make_unique<PackedWeights>(model.layer_linears());
  model.reserve(result.plan.activations);
  strategy->adopt(model.parameters, optimizer->state());
  set_empty_pass(model, objective, *strategy);

  std::vector<BenchPhases> measured = measure(
      {model, objective, *strategy, *optimizer, comm}, recipe, options, per_step,
      [&](std::int64_t m) {
        PackedBatch batch = batches[static_cast<std::size_t>(m)].batch();
        batch.groups = pairs[static_cast<std::size_t>(m)];
        return batch;
      },
      result);
  if (profiling) result.profile = profile_rows();
  result.peak = memory_use().peak;
  result.median = medians(measured);
  if (options.yardstick) {
    measure_rates(comm, result);
    result.fraction = result.operations / result.median.step / result.sgemm;
  }
  return result;
}

}  // namespace dml
