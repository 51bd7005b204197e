// Estimates the duration of a run on this machine from a trial of a few seconds.
#pragma once

#include <cstdint>

#include "core/packed_batch.h"
#include "model/causal_lm.h"

namespace dml {

/// Seconds per token.
struct TokenTimes {
  double training = 0;    // of a training step
  double evaluation = 0;  // of an evaluation
};

/// Times a forward pass over the first tokens of `batch` and scales it by the number of operations to forward and
/// backward of the whole batch. Accurate for large models, whose steps are mostly matrix products; for small models
/// time whole steps instead. Working memory must be reserved.
TokenTimes estimate_pass(CausalLm& model, const PackedBatch& batch);

/// The amount of work in a run.
struct RunSize {
  std::int64_t tokens = 0;                              // of all training steps
  std::int64_t evaluations = 0, evaluation_tokens = 0;  // tokens of one evaluation
};
/// Seconds of the run, split evenly over `ranks`.
double run_seconds(const TokenTimes& times, const RunSize& run, int ranks);

}  // namespace dml
