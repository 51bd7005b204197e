// An optimizer: a pure function of (value, gradient, state, step) on slices of parameters. It has no state of its own;
// dml stores, shards and saves the state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dml/registry.h"

namespace dml::plugin {

/// A trained parameter.
struct Parameter {
  std::string_view name;                // as in the Hugging Face or PEFT file
  std::span<const std::int64_t> shape;  // one or two dimensions
  std::int64_t size = 0;                // elements
  bool decays = false;                  // whether weight decay applies: true for matrices, not for norms and biases
};

/// The optimizer state of a parameter, in float32, initially zero.
struct StateNeeds {
  int per_element = 0;             // floats for each element, at most 64
  std::int64_t per_parameter = 0;  // floats for the whole parameter, at most 2^30; requires `whole`
  bool whole = false;              // step() needs whole parameters, for norms of tensors or products of matrices
};

/// A contiguous range of a parameter's elements; the whole parameter with StateNeeds::whole.
struct Slice {
  const Parameter& parameter;
  std::span<float> value;
  std::span<const float> gradient;  // unscaled: the optimizer multiplies it by Step::gradient_scale
  /// per_element arrays of the size of `value`, then per_parameter floats.
  std::span<float> state;
  double learning_rate = 0;         // of this parameter in this step
  std::int64_t rows = 1, cols = 0;  // of a whole matrix; otherwise one row
};

/// Divides a loop among the threads of the rank; results must not depend on their number.
class Threads {
 public:
  /// Calls body(first, last) for ranges that cover [0, size), concurrently on several threads.
  template <class Body>
  void ranges(std::int64_t size, const Body& body) const {
    run(size, &body,
        [](const void* b, std::int64_t first, std::int64_t last) { (*static_cast<const Body*>(b))(first, last); });
  }

 protected:
  ~Threads() = default;
  virtual void run(std::int64_t size, const void* body,
                   void (*call)(const void*, std::int64_t, std::int64_t)) const = 0;
};

struct Step {
  std::int64_t number = 0;    // 0, 1, …
  double gradient_scale = 1;  // 1 / trained tokens, times the clipping factor
  const Threads& threads;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual StateNeeds state(const Parameter& parameter) const = 0;
  /// Updates value and state. The result must not depend on how a parameter is split into slices, unless state()
  /// requests `whole`.
  virtual void step(const Slice& slice, const Step& step) const = 0;
};

}  // namespace dml::plugin
