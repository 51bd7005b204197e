// A toy model in whose training every lost, duplicated or reordered gradient changes the bits of its values.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/random.h"
#include "dist/shards.h"
#include "dist/strategy.h"

namespace dml {

// Gradients are pseudo-random functions of (step, micro-batch, element) and of the values, so that a value that was not
// published, or a gradient lost, shows in the next step.
class Toy {
 public:
  /// Tied: the head reads the embedding and adds to its gradient.
  explicit Toy(bool tied = true) : tied_(tied) {
    store.embedding_and_head_share_buffer = !tied;
    store.create_units(
        {"embed", "layers.0", "frozen", "layers.1", "layers.2", "layers.3", "layers.4", "layers.5", "head"});
    store.add(0, "embed.weight", {50, 64}, true, {}, tied ? 0 : 16);
    for (std::size_t u : {1u, 3u, 4u, 5u, 6u, 7u}) {
      store.add(u, fmt::format("{}.norm", u), {33}, false);
      store.add(u, fmt::format("{}.up", u), {70, 33}, true, {}, u == 4 ? 0 : 70);
      store.add(u, fmt::format("{}.down", u), {33, 70}, true, {}, u == 4 ? 0 : 33);
    }
    store.add(8, "head.norm", {11}, false);
    if (!tied) store.add(8, "head.weight", {40, 64}, true, {}, 16);
    store.allocate();
  }

  /// The order of CausalLm: the head's gradient is made in the forward pass, the embedding has no before_backward, and
  /// its values are needed in forward only, unless the head reads it. `index` −1: without a micro-batch.
  void backward(DistributionStrategy& strategy, std::int64_t step, std::int64_t index) {
    const std::size_t head = store.units().size() - 1;
    for (std::size_t u = 0; u <= head; ++u) {
      strategy.before_forward(static_cast<int>(u));
      for (std::size_t p = 1; p < parts(u); ++p) {
        strategy.before_values(u, p, 1);
        check_values(u, p);
      }
      if (u < head) strategy.after_forward(static_cast<int>(u));
    }
    strategy.before_gradient(static_cast<int>(head));
    if (tied_) strategy.before_gradient(0);
    if (tied_) add_gradient(0, 0, step, index, 1);
    for (std::size_t p = 1; p < parts(head); ++p) {
      strategy.before_values(head, p, 1);
      make_part(strategy, head, p, step, index, 2);
    }
    add_gradient(head, 0, step, index, 2);
    strategy.after_backward(static_cast<int>(head));
    for (std::size_t u = head - 1; u > 0; --u) {
      strategy.before_backward(static_cast<int>(u));
      for (std::size_t p = parts(u); p-- > 1;) {
        strategy.before_values(u, p, -1);
        make_part(strategy, u, p, step, index, 3);
      }
      add_gradient(u, 0, step, index, 3);
      strategy.after_backward(static_cast<int>(u));
    }
    strategy.before_gradient(0);
    for (std::size_t p = 1; p < parts(0); ++p) make_part(strategy, 0, p, step, index, 4);
    add_gradient(0, 0, step, index, 4);
    strategy.after_backward(0);
  }

  ParameterStore store;

 private:
  std::size_t parts(std::size_t u) const { return store.units()[u].parts.size(); }

  void check_values(std::size_t u, std::size_t part) {
    EXPECT_TRUE(store.units()[u].value || store.units()[u].parts[part].value) << u << " " << part;
  }

  void make_part(DistributionStrategy& strategy, std::size_t u, std::size_t part, std::int64_t step, std::int64_t index,
                 int kind) {
    strategy.before_part_gradient(u, part);
    add_gradient(u, part, step, index, kind);
    strategy.after_part_gradient(u, part);
  }

  void add_gradient(std::size_t u, std::size_t part, std::int64_t step, std::int64_t index, int kind) {
    if (index < 0) return;
    Unit& unit = store.units()[u];
    const UnitPart& in = unit.parts[part];
    const float* value = u == 0 && !tied_ ? nullptr  // not needed, and not always there
                         : unit.value     ? unit.value.floats() + in.first
                                          : in.value.floats();
    float* grad = unit.grad ? unit.grad + in.first : in.grad;
    Random random(3, Purpose::noise, static_cast<std::uint64_t>(step * 1000 + index),
                  static_cast<std::uint32_t>(8 * static_cast<int>(u) + kind));
    if (unit.grad) store.end_gradient(u);  // what follows adds
    for (const Parameter& p : unit.parameters)
      for (std::int64_t i = std::max(p.offset, in.first); i < std::min(p.offset + p.size(), in.last); ++i) {
        auto at = static_cast<std::uint64_t>(i);
        grad[i - in.first] += random.normal(at) * static_cast<float>(1 << (random.word(at + 99999) % 10)) +
                              (value ? value[i - in.first] : 0);
      }
  }

  bool tied_;
};

struct Outcome {
  std::vector<float> values;
  std::vector<double> norms;
  std::map<std::string, std::vector<float>> state;  // by parameter; this rank's part of one plane, else zero
};

using Cut = std::function<MicroBatches(std::int64_t total, int rank, int ranks)>;

/// What a rule does to a shard: value, gradient, state.
using ToyRule = std::function<void(Shard&)>;

inline void toy_descent(Shard& s) {
  for (std::size_t i = 0; i < s.value.size(); ++i) {
    s.state[i] = 0.5f * s.state[i] + s.grad[i] * 1e-4f;
    s.value[i] -= s.state[i];
  }
}

/// Matrices are updated whole: by their momentum over its norm, and with a mean of every row.
inline StateLayout matrix_layout() {
  return StateLayout([](const Parameter& p) {
    ParameterState state{{{"state0"}}, p.shape.size() == 2};
    if (state.whole) state.tensors.push_back({"row_mean", DType::f32, 0, {p.shape[0]}});
    return state;
  });
}
inline void matrix_descent(Shard& s) {
  if (s.parameter->shape.size() == 1) return toy_descent(s);
  ASSERT_EQ(s.size, s.parameter->size());
  ASSERT_EQ(s.state.size(), static_cast<std::size_t>(s.size + s.parameter->shape[0]));
  const auto cols = static_cast<std::size_t>(s.parameter->shape[1]);
  double squares = 0;
  for (std::size_t i = 0; i < s.value.size(); ++i) {
    s.state[i] = 0.5f * s.state[i] + s.grad[i] * 1e-4f;
    squares += s.state[i] * s.state[i];
  }
  const auto scale = static_cast<float>(1 / std::sqrt(squares + 1e-9));
  for (std::size_t i = 0; i < s.value.size(); ++i) {
    s.state[s.value.size() + i / cols] += s.grad[i];
    s.value[i] -= 0.01f * scale * s.state[i] + 1e-9f * s.state[s.value.size() + i / cols];
  }
}

/// Three steps of descent with a momentum plane, of `total` micro-batches each, on one rank of several.
inline Outcome train_toy(Comm& comm, const std::string& name, std::int64_t total, const Cut& cut = nullptr,
                         const DistributionOptions& options = {}, bool tied = true, const StateLayout& layout = 1,
                         const ToyRule& rule = toy_descent) {
  Toy toy(tied);
  Random random(5, Purpose::init);
  for (Unit& unit : toy.store.units())
    for (const Parameter& p : unit.parameters)
      for (std::int64_t i = p.offset; i < p.offset + p.size(); ++i)
        unit.value.floats()[i] = comm.rank() == 0 ? random.normal(static_cast<std::uint64_t>(i)) : 77;  // rank 0's win
  auto strategy = strategies().at(name).make(comm, options);
  strategy->adopt(toy.store, layout);
  Outcome outcome;
  for (std::int64_t step = 0; step < 3; ++step) {
    comm.set_step(step);
    strategy->set_empty_pass([&] { toy.backward(*strategy, step, -1); });
    MicroBatches mine = cut ? cut(total, comm.rank(), comm.size()) : strategy->share(total);
    strategy->begin_step(mine, total);
    for (std::int64_t j = 0; j < mine.count; ++j) {
      std::int64_t index = mine.first + j * mine.stride;
      strategy->begin_micro_step(index);
      toy.backward(*strategy, step, index);
    }
    auto shards = strategy->finish_gradients();
    outcome.norms.push_back(strategy->squared_gradient_norm());
    strategy->update([&](std::span<const Shard> mine_to_update) {
      for (Shard s : mine_to_update) rule(s);
    });
    strategy->publish();
    strategy->end_step();
  }
  comm.set_step(-1);
  double owned = 0;
  for (auto list : {strategy->shards(), strategy->whole_states()})
    for (Shard& s : list) {
      owned += static_cast<double>(s.value.size());
      auto& plane = outcome.state[s.parameter->name];
      plane.resize(static_cast<std::size_t>(layout.floats(*s.parameter, s.parameter->size())));
      std::copy(s.state.begin(), s.state.end(), plane.begin() + s.first);
    }
  const int copies = comm.size() / strategy->slices();  // of the whole state, over all ranks
  EXPECT_EQ(comm.sum(owned), static_cast<double>(copies * toy.store.trainable()));
  strategy->gather_values();
  for (Unit& unit : toy.store.units())
    for (const Parameter& p : unit.parameters)
      outcome.values.insert(outcome.values.end(), unit.value.floats() + p.offset,
                            unit.value.floats() + p.offset + p.size());
  strategy->release_values();
  return outcome;
}

}  // namespace dml
