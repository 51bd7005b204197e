#include "pipeline/bench.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/gemm.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "pipeline/base_model.h"
#include "pipeline/distribution.h"
#include "pipeline/job.h"
#include "pipeline/micro_batch_sums.h"
#include "pipeline/operation_count.h"
#include "pipeline/optimization.h"
#include "pipeline/vocabulary.h"

namespace dml {
namespace {

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Passes the model's hooks on to the strategy and tells from them where a pass is: time inside a hook is communication.
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
  // What follows counts as this phase.
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

// Micro-batches of one step; every step computes the same ones.
std::vector<SyntheticBatch> make_batches(const Recipe& recipe, const BenchOptions& options, const ModelSpec& spec,
                                         std::int64_t count) {
  const std::int64_t length = recipe.data.sequence_len, each = recipe.train.micro_batch_size;
  const auto learned =
      std::clamp<std::int64_t>(std::llround(static_cast<double>(length) * (1 - options.masked)), 1, length - 1);
  if (!options.documents.empty() && static_cast<std::int64_t>(options.documents.size()) < each * count)
    throw UserError("--documents: each step needs {} documents ({} micro-batches of {}), the file has {}", each * count,
                    count, each, options.documents.size());
  std::vector<SyntheticDocument> alike(static_cast<std::size_t>(each), {length, learned});
  std::vector<SyntheticBatch> batches;
  for (std::int64_t m = 0; m < count; ++m) {
    std::span<const SyntheticDocument> documents = alike;
    if (!options.documents.empty())
      documents =
          std::span(options.documents).subspan(static_cast<std::size_t>(m * each), static_cast<std::size_t>(each));
    batches.emplace_back(documents, spec.vocab, static_cast<std::uint64_t>(m));
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

// All ranks at the same time, as they share the machine.
double sgemm_rate(Comm& comm) {
  comm.barrier();
  return comm.sum(kernels::measured_sgemm_rate()) * threads();
}

}  // namespace

BenchResult bench(const Recipe& recipe, Comm& comm, const BenchOptions& options) {
  set_job_threads(recipe.train, comm);
  BenchResult result;
  result.ranks = comm.size();
  result.threads = threads();
  result.sgemm = sgemm_rate(comm);
  result.plan.process = memory_use().now;

  BaseModel base = open_base_model(recipe.model, recipe.adapter);
  fit_vocabulary(base, recipe.adapter);
  auto strategy = make_strategy(recipe, comm);
  const bool in_parts = recipe.adapter.adapter == AdapterKind::none && strategy->shard_ranks() > 1;
  SyntheticWeights weights(base.spec, recipe.model, recipe.adapter);
  TrainableModel trainable;
  if (base.files) trainable = make_trainable_model(base, recipe.model, recipe.adapter, recipe.train.seed, in_parts);
  else {
    Training training = training_of(recipe.adapter, "", recipe.train.seed);
    training.in_parts = in_parts;
    trainable.model = build_model(base.spec, weights.source(), training, "model_config");
  }
  CausalLm& model = *trainable.model;
  set_keeping(model, recipe);

  const std::int64_t per_step = recipe.train.micro_batches_per_step(comm.size());
  std::vector<SyntheticBatch> batches = make_batches(recipe, options, base.spec, per_step);
  std::int64_t longest = 0;
  for (const SyntheticBatch& b : batches) {
    PackedBatch batch = b.batch();
    longest = std::max<std::int64_t>(longest, *std::ranges::max_element(batch.positions) + 1);
    result.plan.data += static_cast<std::size_t>(batch.size()) * (2 * sizeof(Token) + sizeof(std::int32_t));
    result.tokens += batch.size();
    result.learned += batch.learned();
    result.operations += count_operations(model, batch).total();
  }
  model.set_length(longest);
  auto optimizer = make_optimizer(recipe.optim);

  strategy->announce(model.parameters);
  auto held = strategy->memory(model.parameters, optimizer->state(), (per_step + comm.size() - 1) / comm.size());
  CausalLm::Shape largest{0, 0, 0};
  for (const SyntheticBatch& b : batches) {
    largest.tokens = std::max(largest.tokens, b.batch().size());
    largest.documents = std::max(largest.documents, b.batch().documents());
  }
  largest.learned = largest.tokens;
  result.plan.activations = model.measure(largest, true);
  result.plan.trained = static_cast<std::size_t>(held.values);
  result.plan.gradients = static_cast<std::size_t>(held.gradients);
  result.plan.optimizer = static_cast<std::size_t>(held.state);
  result.plan.communication = static_cast<std::size_t>(held.communication);
  result.plan.owned = weights.bytes();
  if (recipe.adapter.adapter != AdapterKind::none) result.plan.frozen = base.bytes();
  result.parameters = base.spec.parameters();
  result.trained = model.parameters.trainable();
  model.reserve(result.plan.activations);
  strategy->adopt(model.parameters, optimizer->state());
  strategy->set_empty_pass([&] { model.train({}, {}, *strategy); });

  std::vector<BenchPhases> measured;
  for (std::int64_t s = 0; s < options.warmup + options.steps; ++s) {
    if (s == options.warmup) reset_profile();
    ProfileScope whole("(between operations)");
    BenchPhases phases;
    comm.barrier();
    auto start = Clock::now();
    double spent = processor_seconds();
    TimedHooks hooks(*strategy, static_cast<int>(base.spec.layers) + 1, phases);
    MicroBatches mine = strategy->share(per_step);
    strategy->begin_step(mine, per_step);
    std::vector<MicroBatchSum> sums;
    for (std::int64_t i = 0, m = mine.first; i < mine.count; ++i, m += mine.stride) {
      strategy->begin_micro_step(m);
      PackedBatch batch = batches[static_cast<std::size_t>(m)].batch();
      hooks.start();
      double loss = model.train(
          batch, {static_cast<std::uint64_t>(recipe.train.seed), static_cast<std::uint64_t>(s * per_step + m)}, hooks);
      hooks.finish();
      sums.push_back({m, batch.size(), batch.learned(), loss});
    }
    auto computed = Clock::now();
    std::span<Shard> shards = strategy->finish_gradients();
    double loss = 0, scale = 1 / static_cast<double>(result.learned);
    for (const MicroBatchSum& m : gather_sums(comm, std::move(sums))) loss += m.loss;
    double norm = gradient_norm(strategy->squared_gradient_norm(), scale);
    phases.communication += seconds_since(computed);
    auto updating = Clock::now();
    auto slices = optimizer_slices(shards);
    optimizer->step(slices, {recipe.optim.learning_rate, s, scale * clip_factor(norm, recipe.optim.max_grad_norm)});
    phases.optimizer = seconds_since(updating);
    auto publishing = Clock::now();
    strategy->publish();
    strategy->end_step();
    phases.communication += seconds_since(publishing);
    phases.step = seconds_since(start);
    phases.processor = processor_seconds() - spent;
    (s == 0 ? result.first_loss : result.last_loss) = loss * scale;
    if (s >= options.warmup) measured.push_back(phases);
  }
  if (profiling) result.profile = profile_table();
  result.peak = memory_use().peak;
  result.sgemm = std::max(result.sgemm, sgemm_rate(comm));
  result.median = medians(measured);
  result.fraction = result.operations / result.median.step / result.sgemm;
  return result;
}

}  // namespace dml
