#include "diagnose/scaling_plan.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "assembly/base_model.h"
#include "assembly/distribution.h"
#include "assembly/job.h"
#include "assembly/optimization.h"
#include "assembly/vocabulary.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/rounding.h"
#include "diagnose/synthetic.h"
#include "dist/frozen_shards.h"
#include "dist/reduction.h"
#include "train/token_loss.h"

namespace dml {
namespace {

// Strategies whose pass is recorded: with whole units bound, with gradients in parts, and with values in parts as well.
// The last one releases the model's values.
constexpr const char* kRecorded[] = {"none", "zero2", "zero3"};

// Replays the recorded passes of a step on the clock of a simulated rank.
class PlayedPasses : public Objective {
 public:
  PlayedPasses(const RecordedPass& pass, SimulatedComm& comm) : pass_(pass), comm_(comm) {}
  LossSums train(CausalLm&, const PackedBatch&, PassSeed, UnitHooks& hooks) override {
    pass_.play(hooks, [this](double seconds) { comm_.compute(seconds); });
    LossSums sums;
    sums.denominator = 1;
    return sums;
  }
  LossSums evaluate(CausalLm&, const PackedBatch&, UnitHooks&, std::span<DocumentLoss>) override { return {}; }

 private:
  const RecordedPass& pass_;
  SimulatedComm& comm_;
};

// Replays an update: the measured time of all parameters, in proportion for a shard.
class PlayedUpdate : public Optimizer {
 public:
  PlayedUpdate(StateLayout state, double seconds_a_float, SimulatedComm& comm)
      : state_(std::move(state)), seconds_(seconds_a_float), comm_(comm) {}
  StateLayout state() const override { return state_; }
  void step(std::span<const OptimizerSlice> slices, const OptimizerStep&) const override {
    for (const OptimizerSlice& slice : slices) comm_.compute(seconds_ * static_cast<double>(slice.size()));
  }

 private:
  StateLayout state_;
  double seconds_;
  SimulatedComm& comm_;
};

// Measures the cost of copying and adding in memory outside of the caches.
ExchangeCosts measured_costs() {
  constexpr std::int64_t kFloats = 8 << 20;
  Arena arena(2 * kFloats * sizeof(float));
  float *a = arena.take<float>(kFloats).data(), *b = arena.take<float>(kFloats).data();
  ExchangeCosts costs;
  for (int pass = 0; pass < 3; ++pass) {
    auto per_float = [start = Clock::now()]() mutable {
      const double seconds = seconds_since(start) / kFloats;
      start = Clock::now();
      return seconds;
    };
    add_floats(a, b, kFloats);
    costs.add = per_float();
    std::memcpy(b, a, kFloats * sizeof(float));
    costs.copy = per_float();
    const Wire wire{DType::bf16};
    per_float();
    wire.pack(a, kFloats, reinterpret_cast<bf16*>(b));
    costs.pack = per_float();
    wire.unpack(a, kFloats);
    costs.unpack = per_float();
  }
  costs.zero = costs.copy / 2;                      // nothing is read
  costs.transfer = 2 * costs.copy / sizeof(float);  // into the system's buffers and out of them
  return costs;
}

double number_before(const std::string& text, std::string& unit) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  unit = end;
  unit.erase(0, unit.find_first_not_of(' ') == unit.npos ? unit.size() : unit.find_first_not_of(' '));
  for (const char* tail : {"/s", "ps"})
    if (unit.size() > 2 && unit.ends_with(tail)) unit.resize(unit.size() - 2);
  return end == text.c_str() ? -1 : value;
}

}  // namespace

double parse_bandwidth(const std::string& text) {
  std::string unit;
  double value = number_before(text, unit);
  const std::pair<const char*, double> units[] = {{"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8}, {"mbit", 1e6 / 8},
                                                  {"gbit", 1e9 / 8}, {"MB", 1e6},       {"GB", 1e9}};
  for (auto [name, factor] : units)
    if (unit == name && value > 0) return value * factor * 0.94;  // Ethernet, IP and TCP headers
  throw UserError("--bandwidth {}: expected a rate like 1Gbit, 100Mbit or 3GB", text);
}

double parse_latency(const std::string& text) {
  std::string unit;
  double value = number_before(text, unit);
  for (auto [name, factor] : {std::pair{"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1.0}})
    if (unit == name && value >= 0) return value * factor;
  throw UserError("--latency {}: expected a time like 0.2ms or 20us", text);
}

ScalingPlan::ScalingPlan(const Recipe& recipe) : recipe_(recipe) {
  BaseModel base = open_base_model(recipe.model, recipe.adapter);
  fit_vocabulary(base, recipe.adapter);
  if (base.files) {
    model_ = make_trainable_model(base, recipe.model, recipe.adapter, recipe.train.seed, {.bf16 = trains_bf16(recipe)})
                 .model;
    frozen_ = recipe.adapter.adapter == AdapterKind::none ? 0 : base.bytes();
  } else {
    auto weights = std::make_shared<SyntheticWeights>(base.spec, recipe.model, recipe.adapter);
    Training training = training_of(recipe.adapter, "", recipe.train.seed);
    training.values.bf16 = trains_bf16(recipe);
    model_ = build_model(base.spec, weights->source(), training, "model_config");
    frozen_ = weights->bytes();
    source_ = weights;
  }
  set_recompute_policy(*model_, recipe);
  calibrate();
}

ScalingPlan::Binding ScalingPlan::binding_of(const ParameterStore& store) {
  return {store.values_in_parts, store.gradients_in_parts};
}

void ScalingPlan::calibrate() {
  const std::int64_t length = recipe_.data.sequence_len;
  std::vector<SyntheticDocument> documents(static_cast<std::size_t>(recipe_.train.micro_batch_size),
                                           {length, length - 1});
  SyntheticBatch batch(documents, model_->spec.vocab, 1);
  model_->set_length(length);
  calibration_.tokens = batch.batch().size();
  calibration_.costs = measured_costs();
  for (const char* name : kRecorded) record(name, batch.batch());
}

void ScalingPlan::record(const std::string& name, const PackedBatch& batch) {
  auto comm = make_self_comm();
  auto strategy = strategies().at(name).make(*comm, {});
  ParameterStore& store = model_->parameters;
  strategy->announce(store);
  Recorded& recorded = recorded_[binding_of(store)];
  recorded.activations = model_->measure(batch, true);
  store.values_in_parts = store.gradients_in_parts = false;
  model_->reserve(recorded.activations);
  auto optimizer = make_optimizer(recipe_);
  state_ = optimizer->state();
  strategy->adopt(store, state_);
  TokenLoss objective;
  // The first step touches the memory; of two more the shorter times count.
  for (std::int64_t step = 0; step < 3; ++step) {
    PassRecorder watch;
    run_step(
        {*model_, objective, *strategy, *optimizer, *comm},
        {.step = step, .micro_batches = 1, .seed = 1, .learning_rate = 1e-6}, [&](std::int64_t) { return batch; },
        watch);
    const double update = watch.since_exchange();
    if (step == 1) recorded.pass = watch.pass(), recorded.update = update;
    if (step < 2) continue;
    recorded.pass.take_faster(watch.pass());
    recorded.update = std::min(recorded.update, update);
  }
  if (name != kRecorded[0]) return;
  calibration_.pass = recorded.pass.seconds();
  calibration_.update = recorded.update;
}

StepForecast ScalingPlan::forecast(const std::string& name, int ranks, std::int64_t total,
                                   const Network& network) const {
  DistributionOptions options = distribution_options(recipe_.distribution);
  options.plugin_args = recipe_.plugin.plugin_args;
  if (options.shard_size == 0) options.shard_size = std::min(network.ranks_per_host, ranks);
  if (strategies().at(name).make.reads("dp_shard_size") && ranks % options.shard_size != 0)
    throw UserError("--ranks {}: not a multiple of the shard group size {} (dp_shard_size or --ranks-per-host)", ranks,
                    options.shard_size);
  const DryRun dry;
  StepForecast out;
  out.strategy = name;
  play(out, ranks, total, network, options);
  hold(out, ranks, total, network, options);
  return out;
}

// Simulates the last rank, whose shards and share of micro-batches are the largest.
void ScalingPlan::play(StepForecast& out, int ranks, std::int64_t total, const Network& network,
                       const DistributionOptions& options) const {
  SimulatedComm comm(ranks - 1, ranks, network, calibration_.costs);
  ParameterStore store = model_->parameters.outline();
  store.allocate();
  auto strategy = strategies().at(out.strategy).make(comm, options);
  strategy->announce(store);
  strategy->adopt(store, state_);
  const auto group = static_cast<int>(strategy->share(total).stride);  // ranks that take micro-batches in turn
  comm.set_other_ranks([&](int rank, Operation operation, std::span<std::byte> message) {
    if (operation.channel != Reduction::kSharesChannel) return false;
    const MicroBatches range = contiguous_share(total, rank / group, ranks / group);
    const Reduction::Share share{range.first, range.count, total};
    std::ranges::copy(std::as_bytes(std::span(&share, 1)), message.begin());
    return true;
  });
  const bool shards_frozen = frozen_ > 0 && recipe_.distribution.shard_frozen_weights == true;
  if (shards_frozen) strategy->shard_frozen(frozen_of_layers(*model_));
  PlayedPasses passes(recorded_.at(binding_of(store)).pass, comm);
  set_empty_pass(*model_, passes, *strategy);
  const double update = calibration_.update / static_cast<double>(std::max<std::int64_t>(1, store.trainable()));
  const PlayedUpdate optimizer(state_, update, comm);
  StepWatcher no_watcher;
  comm.start_clock();
  run_step(
      {*model_, passes, *strategy, optimizer, comm}, {.micro_batches = total},
      [](std::int64_t) { return PackedBatch{}; }, no_watcher);
  out.step = comm.now();
  out.waiting = comm.waited();
  out.sent = comm.sent();
  if (shards_frozen) strategy->gather_values(), strategy->release_values();  // weights are bound to the files again
}

// The memory of the first rank, which owns most of the whole parameters.
void ScalingPlan::hold(StepForecast& out, int ranks, std::int64_t total, const Network& network,
                       const DistributionOptions& options) const {
  SimulatedComm comm(0, ranks, network, calibration_.costs);
  auto strategy = strategies().at(out.strategy).make(comm, options);
  ParameterStore store = model_->parameters.outline();
  strategy->announce(store);
  const auto held = strategy->memory(store, state_, ceil_div(total, ranks));
  out.memory = held.values + held.gradients + held.state + held.communication +
               static_cast<std::int64_t>(recorded_.at(binding_of(store)).activations + frozen_);
  if (frozen_ > 0 && strategy->shard_ranks() > 1 && recipe_.distribution.shard_frozen_weights == true) {
    auto layers = frozen_of_layers(*model_);
    out.memory -= static_cast<std::int64_t>(FrozenShards::memory(layers, 1) -
                                            FrozenShards::memory(layers, strategy->shard_ranks()));
  }
}

}  // namespace dml
