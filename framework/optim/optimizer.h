// Optimizers: pure functions of (value, gradient, state, step) over slices; they keep nothing themselves, so whoever
// shards the state or saves it needs no help from here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/registry.h"
#include "nn/state_layout.h"

namespace dml {

/// A stretch of one parameter; `state` as the optimizer's layout says.
struct OptimizerSlice {
  std::span<float> value;
  std::span<const float> grad;
  std::span<float> state;
  bool decay = false;
  float learning_rate_scale = 1;
  std::int64_t parameter_size = 0;  // of the whole parameter
};

/// The slices of anything shaped like dist's Shard.
template <class Shards>
std::vector<OptimizerSlice> optimizer_slices(const Shards& shards) {
  std::vector<OptimizerSlice> slices;
  for (const auto& s : shards)
    slices.push_back(
        {s.value, s.grad, s.state, s.parameter->decay, s.parameter->learning_rate_scale, s.parameter->size()});
  return slices;
}

struct OptimizerStep {
  double learning_rate = 0;
  std::int64_t number = 0;    // 0, 1, …
  double gradient_scale = 1;  // multiplies every gradient first: 1 / learned tokens, times the clipping factor
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Its state per parameter; all zero before the first step.
  virtual StateLayout state() const = 0;
  virtual void step(std::span<const OptimizerSlice> slices, const OptimizerStep& step) const = 0;
};

struct OptimizerSettings {
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  Json args = Json::object();  // optim_args: betas, beta1, beta2, eps, momentum, weight_decay; they win over the above
};

using OptimizerFactory = std::unique_ptr<Optimizer> (*)(const OptimizerSettings&);
/// adamw, lion, sgd, and the first two with state in bytes.
Registry<OptimizerFactory>& optimizers();

}  // namespace dml
