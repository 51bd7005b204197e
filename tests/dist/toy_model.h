// A toy model whose training shows every lost, doubled or reordered gradient in the bits of its values.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/random.h"
#include "dist/slices.h"
#include "dist/strategy.h"

namespace dml {

// Gradients are pseudo-random functions of (step, micro-batch, element) and of the values, so that a value that was not
// published, or a gradient lost, shows in the next step.
class Toy {
 public:
  /// Tied: the head reads the embedding and adds to its gradient.
  explicit Toy(bool tied = true) : tied_(tied) {
    store.ends_take_turns = !tied;
    store.create_units(
        {"embed", "layers.0", "frozen", "layers.1", "layers.2", "layers.3", "layers.4", "layers.5", "head"});
    store.add(0, "embed.weight", {50, 64}, true);
    for (std::size_t u : {1u, 3u, 4u, 5u, 6u, 7u}) {
      store.add(u, fmt::format("{}.norm", u), {33}, false);
      store.add(u, fmt::format("{}.up", u), {70, 33}, true);
      store.add(u, fmt::format("{}.down", u), {33, 70}, true);
    }
    store.add(8, "head.weight", {7, 11}, true);
    store.allocate();
  }

  /// The order of CausalLm: the head's gradient is made in the forward pass, the embedding has no before_backward.
  void backward(DistributionStrategy& strategy, std::int64_t step, std::int64_t index) {
    int head = static_cast<int>(store.units().size()) - 1;
    for (int u = 0; u < head; ++u) {
      strategy.before_forward(u);
      strategy.after_forward(u);
    }
    strategy.before_forward(head);
    strategy.before_gradient(head);
    if (tied_) strategy.before_gradient(0);
    if (tied_) add_gradient(0, step, index, 1);
    add_gradient(head, step, index, 2);
    strategy.after_backward(head);
    for (int u = head - 1; u > 0; --u) {
      strategy.before_backward(u);
      add_gradient(u, step, index, 3);
      strategy.after_backward(u);
    }
    strategy.before_gradient(0);
    add_gradient(0, step, index, 4);
    strategy.after_backward(0);
  }

  ParameterStore store;

 private:
  void add_gradient(int u, std::int64_t step, std::int64_t index, int kind) {
    Unit& unit = store.units()[static_cast<std::size_t>(u)];
    const float* value = u == 0 && !tied_ ? nullptr : unit.value;  // not needed, and not always there
    Random random(3, Purpose::noise, static_cast<std::uint64_t>(step * 1000 + index),
                  static_cast<std::uint32_t>(8 * u + kind));
    store.end_gradient(static_cast<std::size_t>(u));  // what follows adds
    for (const Parameter& p : unit.parameters)
      for (std::int64_t i = p.offset; i < p.offset + p.size(); ++i) {
        auto at = static_cast<std::uint64_t>(i);
        unit.grad[i] +=
            random.normal(at) * static_cast<float>(1 << (random.word(at + 99999) % 10)) + (value ? value[i] : 0);
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

/// Three steps of descent with a momentum plane, of `total` micro-batches each, on one rank of several.
inline Outcome train_toy(Comm& comm, const std::string& name, std::int64_t total, const Cut& cut = nullptr,
                         const DistributionOptions& options = {}, bool tied = true) {
  Toy toy(tied);
  Random random(5, Purpose::init);
  for (Unit& unit : toy.store.units())
    for (const Parameter& p : unit.parameters)
      for (std::int64_t i = p.offset; i < p.offset + p.size(); ++i)
        unit.value[i] = comm.rank() == 0 ? random.normal(static_cast<std::uint64_t>(i)) : 77;  // rank 0's win
  auto strategy = strategies().at(name).make(comm, options);
  strategy->adopt(toy.store, 1);
  Outcome outcome;
  for (std::int64_t step = 0; step < 3; ++step) {
    comm.set_step(step);
    MicroBatches mine = cut ? cut(total, comm.rank(), comm.size()) : strategy->share(total);
    strategy->begin_step(mine, total);
    for (std::int64_t j = 0; j < mine.count; ++j) {
      std::int64_t index = mine.first + j * mine.stride;
      strategy->begin_micro_step(index);
      toy.backward(*strategy, step, index);
    }
    auto shards = strategy->finish_gradients();
    outcome.norms.push_back(strategy->squared_gradient_norm());
    EXPECT_EQ(first_not_finite_gradient(comm, toy.store, shards), "");
    for (Shard& s : shards)
      for (std::size_t i = 0; i < s.value.size(); ++i) {
        s.state[i] = 0.5f * s.state[i] + s.grad[i] * 1e-4f;
        s.value[i] -= s.state[i];
      }
    strategy->publish();
    strategy->end_step();
  }
  comm.set_step(-1);
  double owned = 0;
  for (Shard& s : strategy->shards()) {
    owned += static_cast<double>(s.value.size());
    auto& plane = outcome.state[s.parameter->name];
    plane.resize(static_cast<std::size_t>(s.parameter->size()));
    std::copy(s.state.begin(), s.state.end(), plane.begin() + s.first);
  }
  EXPECT_EQ(strategy->total(owned), static_cast<double>(toy.store.trainable()));
  strategy->gather_values();
  for (Unit& unit : toy.store.units())
    for (const Parameter& p : unit.parameters)
      outcome.values.insert(outcome.values.end(), unit.value + p.offset, unit.value + p.offset + p.size());
  strategy->release_values();
  return outcome;
}

}  // namespace dml
