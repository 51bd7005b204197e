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
#include "diagnose/synthetic.h"
#include "dist/frozen_shards.h"
#include "dist/unit_places.h"
#include "kernels/cross_entropy.h"
#include "train/step.h"
#include "train/token_loss.h"

namespace dml {
namespace {

constexpr double kMessage = 3e-6;  // seconds of the processor for one message, sent or received
// A packet between hosts takes the system of either about so long: cut, queued, acknowledged. Network cards that do this by
// themselves take less.
constexpr double kPacket = 1.2e-6, kPacketBytes = 1448;
constexpr int kSmallExchanges = 8;  // a step's sums over ranks of numbers, each waited for

// One of `size` ranks that are alike: whatever is asked of the others, they say the same. Enough for a strategy to tell
// what it would hold.
class MirrorComm : public Comm {
 public:
  MirrorComm(int size, int local) : size_(size), local_(std::min(local, size)) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  int local_rank() const override { return 0; }
  int local_size() const override { return local_; }
  std::string host() const override { return "host"; }
  std::unique_ptr<Pending> exchange(std::vector<std::span<const std::byte>> send,
                                    std::vector<std::span<std::byte>> receive, Operation) override {
    for (std::size_t r = 0; r < receive.size(); ++r)
      if (const auto& from = send[r].empty() ? send.back() : send[r]; from.size() == receive[r].size())
        std::ranges::copy(from, receive[r].begin());
    struct Done : Pending {
      void wait() override {}
      bool test() override { return true; }
    };
    return std::make_unique<Done>();
  }
  void abort(int code) override { std::exit(code); }

 private:
  int size_, local_;
};

// Seconds between the model's hooks, by unit, and of the update, which follows the exchange (one rank exchanges nothing).
class TimedUnits : public StepWatcher, public UnitHooks {
 public:
  TimedUnits(DistributionStrategy& strategy, std::size_t units) : to_(strategy) {
    times_.forward.assign(units, 0);
    times_.backward.assign(units, 0);
  }
  Calibration finish(std::int64_t tokens) {
    times_.update = seconds_since(since_);
    times_.tokens = tokens;
    return times_;
  }

  UnitHooks& hooks(UnitHooks&) override { return *this; }
  void pass_begins() override { since_ = Clock::now(); }
  void exchange_ended() override { since_ = Clock::now(); }

  void before_forward(int u) override { to_.before_forward(u); }
  void after_forward(int u) override { to_.after_forward(u), book(times_.forward, u); }
  void before_backward(int u) override { to_.before_backward(u); }
  void before_gradient(int u) override { to_.before_gradient(u); }
  void after_backward(int u) override { to_.after_backward(u), book(times_.backward, u); }

 private:
  void book(std::vector<double>& times, int unit) {
    times[static_cast<std::size_t>(unit)] = seconds_since(since_);
    since_ = Clock::now();
  }
  UnitHooks& to_;
  Calibration times_;
  Clock::time_point since_;
};

double number_before(const std::string& text, std::string& unit) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  unit = end;
  unit.erase(0, unit.find_first_not_of(' ') == unit.npos ? unit.size() : unit.find_first_not_of(' '));
  for (const char* tail : {"/s", "ps"})
    if (unit.size() > 2 && unit.ends_with(tail)) unit.resize(unit.size() - 2);
  return end == text.c_str() ? -1 : value;
}

// A link that carries one thing at a time.
struct Link {
  double rate, latency, free = 0;
  /// When what is handed over at `ready` has arrived.
  double carry(double ready, double bytes) {
    if (bytes <= 0) return ready;
    free = std::max(free, ready) + bytes / rate;
    return free + latency;
  }
};

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

double Calibration::pass() const {
  double sum = 0;
  for (double t : forward) sum += t;
  for (double t : backward) sum += t;
  return sum;
}

ScalingPlan::ScalingPlan(const Recipe& recipe) : recipe_(recipe) {
  BaseModel base = open_base_model(recipe.model, recipe.adapter);
  fit_vocabulary(base, recipe.adapter);
  if (base.files) {
    model_ = make_trainable_model(base, recipe.model, recipe.adapter, recipe.train.seed).model;
    frozen_ = recipe.adapter.adapter == AdapterKind::none ? 0 : base.bytes();
  } else {
    auto weights = std::make_shared<SyntheticWeights>(base.spec, recipe.model, recipe.adapter);
    model_ =
        build_model(base.spec, weights->source(), training_of(recipe.adapter, "", recipe.train.seed), "model_config");
    frozen_ = weights->bytes();
    source_ = weights;
  }
  set_keeping(*model_, recipe);
  calibrate();
}

void ScalingPlan::calibrate() {
  const std::int64_t length = recipe_.data.sequence_len;
  std::vector<SyntheticDocument> documents(static_cast<std::size_t>(recipe_.train.micro_batch_size),
                                           {length, length - 1});
  SyntheticBatch batch(documents, model_->spec.vocab, 1);
  model_->set_length(length);
  activations_ = model_->measure(batch.batch(), true);
  ParameterStore& store = model_->parameters;
  store.values_in_parts = store.gradients_in_parts = true;
  activations_in_parts_ = model_->measure(batch.batch(), true);
  store.values_in_parts = store.gradients_in_parts = false;
  computed_twice_ = static_cast<double>(kernels::logits_computed_twice(batch.batch().learned(), model_->spec.vocab)) /
                    static_cast<double>(std::max<std::int64_t>(1, batch.batch().learned()));
  model_->reserve(activations_);
  auto optimizer = make_optimizer(recipe_.optim);
  state_ = optimizer->state();
  auto comm = make_self_comm();
  auto strategy = strategies().at("none").make(*comm, {});
  strategy->adopt(model_->parameters, state_);
  TokenLoss objective;
  // The first step touches the memory; of two more the faster counts.
  for (std::int64_t step = 0; step < 3; ++step) {
    TimedUnits watch(*strategy, model_->parameters.units().size());
    run_step({*model_, objective, *strategy, *optimizer, *comm}, {.step = step, .micro_batches = 1, .seed = 1, .learning_rate = 1e-6},
             [&](std::int64_t) { return batch.batch(); }, watch);
    const Calibration now = watch.finish(batch.batch().size());
    if (step == 1 || (step == 2 && now.pass() + now.update < calibration_.pass() + calibration_.update))
      calibration_ = now;
  }
  // What a byte and an addition cost, on memory that no cache holds.
  constexpr std::int64_t kFloats = 8 << 20;
  Arena arena(2 * kFloats * sizeof(float));
  float *a = arena.take<float>(kFloats).data(), *b = arena.take<float>(kFloats).data();
  for (int pass = 0; pass < 3; ++pass) {
    auto start = Clock::now();
    add_floats(a, b, kFloats);
    calibration_.add = seconds_since(start) / kFloats;
    start = Clock::now();
    std::memcpy(b, a, kFloats * sizeof(float));
    calibration_.copy =
        2 * seconds_since(start) / (kFloats * sizeof(float));  // into the system's buffers or out of them
    const Wire wire{CommDtype::bf16};
    start = Clock::now();
    wire.pack(a, kFloats, reinterpret_cast<bf16*>(b));
    calibration_.pack = seconds_since(start) / kFloats;
    start = Clock::now();
    wire.unpack(a, kFloats);
    calibration_.unpack = seconds_since(start) / kFloats;
  }
}

StepForecast ScalingPlan::forecast(const std::string& name, int ranks, std::int64_t total,
                                   const Network& network) const {
  const Calibration& c = calibration_;
  const auto& units = model_->parameters.units();
  const int per_host = std::min(network.ranks_per_host, ranks);
  const bool shards_values = name == "zero3" || name == "hybrid", in_rounds = shards_values || name == "zero2";
  const int group = name != "hybrid" ? ranks : static_cast<int>(recipe_.distribution.dp_shard_size.value_or(per_host));
  if (group < 1 || ranks % group != 0)
    throw UserError("--ranks {}: not a multiple of the shard group size {} (dp_shard_size or --ranks-per-host)", ranks,
                    group);
  const int groups = ranks / group;
  DistributionOptions options = distribution_options(recipe_.distribution);
  options.shard_size = group;
  const bool rounded = options.wire.type == CommDtype::bf16;
  const double gradient_bytes = rounded ? 2 : 4;
  const std::int64_t rounds = (total + ranks - 1) / ranks;
  const double nodes = !in_rounds && options.tree
                           ? static_cast<double>(tree_schedule(contiguous_share(total, 0, ranks), total).nodes.size())
                           : 1;

  StepForecast out;
  out.strategy = name;
  Link link{network.bandwidth, network.latency};
  double t = 0, computing = 0;
  auto compute = [&](double seconds) {
    t += seconds;
    computing += seconds;
  };
  // Every rank of a group of `among`, of which `local` share a host, sends the others' parts of so many bytes and receives its own.
  auto exchange = [&](double bytes, int among, int local, double ready = 0) {
    if (among == 1) return std::max(t, ready);
    const double moved = bytes * (among - 1) / among, out_of_host = bytes * std::max(0, among - local) / among;
    out.sent += moved;
    compute(2 * moved * c.copy + 2 * (among - 1) * kMessage + 2 * out_of_host / kPacketBytes * kPacket);
    return link.carry(std::max(t, ready), per_host * out_of_host);
  };
  // So many floats are rounded before they are sent, and so many are made floats again.
  auto convert = [&](double packed, double unpacked) {
    if (rounded) compute(packed * c.pack + unpacked * c.unpack);
  };
  const int group_local = std::min(group, per_host), across_local = std::max(1, per_host / group);
  const std::vector<Stretch> stretches = in_rounds ? unit_parts(model_->parameters) : whole_units(model_->parameters);
  auto floats = [&](std::size_t s) { return static_cast<double>(stretches[s].size); };
  auto gather = [&](std::size_t s) { return exchange(4 * floats(s), group, group_local); };
  const auto last = units.size() - 1;
  std::vector<std::size_t> first_of;
  for (std::size_t s = 0; s < stretches.size(); ++s)
    if (stretches[s].part == 0) first_of.push_back(s);
  first_of.push_back(stretches.size());
  // How much of a unit's work is done on one of its large parts.
  auto share = [&](std::size_t s) {
    const std::size_t u = stretches[s].unit;
    return floats(s) / static_cast<double>(units[u].size - units[u].parts[0].size());
  };
  double done = 0;

  // Values and gradients of sharded parts, as in dist/sharded.cpp.
  const UnitPlaces value_places(model_->parameters, group, false), gradient_places(model_->parameters, group, true);
  std::vector<double> there(stretches.size(), -1);  // when a part's values are; −1: not asked for
  auto start = [&](std::size_t s) {
    if (there[s] >= 0 || stretches[s].size == 0) return;
    for (std::size_t other = 0; other < stretches.size(); ++other)
      if (value_places.overlap(other, s)) there[other] = -1;
    there[s] = gather(s);
  };
  const bool gathers = shards_values && group > 1;
  // A part is read, and those behind it in the walk are asked for, as many as there are places; past a unit's end only if
  // `on`.
  auto need = [&](std::size_t s, int direction, bool on) {
    if (!gathers) return;
    start(s);
    t = std::max(t, there[s]);
    std::vector<std::size_t> kept{s};
    for (std::size_t next = s;;) {
      const std::size_t u = stretches[next].unit;
      next += static_cast<std::size_t>(direction);
      if (next == first_of[u] || next == first_of[u + 1]) {
        if (!on || (direction < 0 && u <= 1)) return;
        next = direction > 0 ? first_of[u + 1] + 1 : first_of[u] - 1;
      }
      if (next >= stretches.size() || stretches[next].part == 0) return;
      for (std::size_t other : kept)
        if (value_places.overlap(other, next)) return;
      start(next);
      kept.push_back(next);
    }
  };
  auto visit = [&](std::size_t u, std::size_t next) {
    if (!gathers) return;
    const std::size_t s = first_of[u], end = first_of[u + 1];
    start(s);
    t = std::max(t, there[s]);
    if (end - s > 1) start(next > u ? s + 1 : end - 1);
    const bool for_forward_only = next < u && next == 0 && model_->parameters.ends_take_turns;
    if (next <= last && !for_forward_only && !value_places.overlap(first_of[next], s)) start(first_of[next]);
  };
  std::vector<double> landed_at(stretches.size(), 0);  // when a part's gradient, as last sent, had arrived
  auto wait_for = [&](auto&& is_meant) {
    for (std::size_t other = 0; other < stretches.size(); ++other)
      if (stretches[other].size > 0 && is_meant(other)) t = std::max(t, landed_at[other]);
  };
  auto launch = [&](std::size_t s) {
    if (stretches[s].size == 0) return 0.0;
    const std::int64_t slice = slice_of(stretches[s].size, group - 1, group).size(), piece = gradient_places[s].piece;
    const auto pieces = static_cast<double>((slice + piece - 1) / piece);
    for (double p = 0; p < pieces; ++p) {
      wait_for([&](std::size_t other) { return gradient_places.exchanges_collide(other, s); });
      const double others = floats(s) / pieces * (group - 1) / group;
      compute(c.add * others);
      convert(others, others);
      // Zeroed before it was made, which is half of copying it; and the sum of the own slice is copied to where it stays.
      compute(c.copy / 2 * sizeof(float) * floats(s) / pieces * (0.5 + 1.0 / group));
      landed_at[s] = exchange(gradient_bytes * floats(s) / pieces, group, group_local);
    }
    return landed_at[s];
  };
  // The gradient of a stretch is final.
  auto sum = [&](std::size_t s, bool final) {
    if (!in_rounds) compute(c.add * floats(s) * static_cast<double>(rounds - 1) / static_cast<double>(rounds));
    if (ranks == 1 || stretches[s].size == 0 || (!in_rounds && !final)) return;
    double landed = 0;
    if (in_rounds) {
      landed = launch(s);
    } else {
      landed = exchange(gradient_bytes * floats(s) * nodes, group, group_local);
      compute(c.add * floats(s) * (group - 1) / group);
      convert(floats(s) * nodes * (group - 1) / group, floats(s) * nodes * (group - 1) / group);
    }
    if (name == "ddp") {
      convert(floats(s) / ranks, floats(s));
      landed = exchange(gradient_bytes * floats(s), ranks, per_host, landed);
    }
    if (groups > 1 && final)
      for (int way = 0; way < 2; ++way)
        landed = exchange(gradient_bytes * floats(s) / group, groups, across_local, landed);
    done = std::max(done, landed);
  };
  auto make_gradient = [&](std::size_t s, double seconds, bool final) {
    if (in_rounds) wait_for([&](std::size_t other) { return gradient_places.exchanges_collide(other, s); });
    compute(seconds);
    sum(s, final);
  };

  for (std::int64_t round = 0; round < rounds; ++round) {
    const bool final = round + 1 == rounds;
    for (std::size_t u = 0; u <= last; ++u) {
      visit(u, u + 1);
      const std::size_t first = first_of[u] + 1, end = first_of[u + 1];
      if (first == end) compute(c.forward[u]);
      for (std::size_t s = first; s < end; ++s) {
        need(s, 1, true);
        // The head's sums, a third of its work.
        compute(share(s) * (u < last ? c.forward[u] : c.backward[u] / 3));
      }
    }
    for (std::size_t u = last + 1; u-- > 0;) {
      if (u > 0 && u < last) visit(u, u - 1);
      const std::size_t first = first_of[u] + 1, end = first_of[u + 1];
      for (std::size_t i = first; i < end; ++i) {
        const bool is_end = u == 0 || u == last;
        const std::size_t s = is_end ? i : end - 1 - (i - first);
        if (u > 0) need(s, is_end ? 1 : -1, !is_end);
        make_gradient(s, share(s) * c.backward[u] * (u < last ? 1 : (2 + computed_twice_) / 3), final);
      }
      make_gradient(first_of[u], first == end ? c.backward[u] : 0, final);
    }
  }
  t = std::max(t, done);
  if (ranks > 1) t += kSmallExchanges * (network.latency + (ranks - 1) * kMessage);
  const bool owns_part = name == "zero1" || in_rounds;
  compute(owns_part ? c.update / group : c.update);
  if (name == "zero1" || name == "zero2") {
    double all = 0;
    for (std::size_t s = 0; s < stretches.size(); ++s) all = std::max(all, gather(s));
    t = std::max(t, all);
  }
  out.step = t;
  out.waiting = t - computing;

  MirrorComm mirror(ranks, per_host);
  auto strategy = strategies().at(name).make(mirror, options);
  auto held = strategy->memory(model_->parameters, state_, rounds);
  out.memory = held.values + held.gradients + held.state + held.communication +
               static_cast<std::int64_t>((in_rounds ? activations_in_parts_ : activations_) + frozen_);
  if (frozen_ > 0 && strategy->shard_ranks() > 1 && recipe_.distribution.shard_frozen_weights == true) {
    auto layers = frozen_of_layers(*model_);
    out.memory -= static_cast<std::int64_t>(FrozenShards::memory(layers, 1) -
                                            FrozenShards::memory(layers, strategy->shard_ranks()));
  }
  return out;
}

}  // namespace dml
