// Loops over the elements of a slice, and sums over a tensor whose bits do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/arena.h"
#include "core/parallel.h"
#include "core/rounding.h"
#include "optim/optimizer.h"

namespace dml {

inline constexpr std::int64_t kElementGrain = 16384;

inline float as_float(double x) { return static_cast<float>(x); }

/// Calls element(i) for i in [0, size), in parallel.
template <class F>
void each_element(std::int64_t size, F element) {
  parallel_ranges(size, kElementGrain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) element(i);
  });
}

/// Plane number k of a slice's float32 state; the planes begin after `before` floats.
inline float* plane(const OptimizerSlice& s, std::int64_t k, std::int64_t before = 0) {
  return s.state.data() + before + k * s.size();
}

/// The sum of term(i) over [0, size) in double: of blocks in parallel, then of the blocks in order.
template <class F>
double sum_in_order(std::int64_t size, F term) {
  constexpr std::int64_t kBlock = 4096;
  static thread_local std::vector<double> sums;
  std::vector<double>& mine = sums;
  mine.assign(static_cast<std::size_t>(ceil_div(size, kBlock)), 0);
  parallel_ranges(size, kBlock, [&](std::int64_t first, std::int64_t last) {
    double sum = 0;
    for (std::int64_t i = first; i < last; ++i) sum += static_cast<double>(term(i));
    mine[static_cast<std::size_t>(first / kBlock)] = sum;
  });
  double total = 0;
  for (double sum : mine) total += sum;
  return total;
}

/// This thread's memory for the update of a parameter. It only grows, so that steps allocate nothing; the next call
/// returns the same memory.
inline float* working_memory(std::int64_t floats) {
  static thread_local Arena memory;
  const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
  if (memory.capacity() < bytes) memory = Arena(bytes);
  Arena::Scope scope(memory);
  return memory.take<float>(floats).data();
}

/// The factors of a step for a slice.
struct SliceStep {
  float rate, decay, scale;  // learning rate, weight decay, factor of the gradient

  SliceStep(const OptimizerSlice& s, const OptimizerStep& step, float weight_decay)
      : rate(as_float(step.learning_rate * s.parameter->learning_rate_scale)),
        decay(s.parameter->decay ? weight_decay : 0),
        scale(as_float(step.gradient_scale)) {}
};

}  // namespace dml
