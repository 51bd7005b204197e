// dml plan --ranks: how long a step takes and what a rank holds under each strategy, before the machines are there.
//
// One rank's own times – forward and backward of every unit, the update – are measured here, on one micro-batch of made-up
// data of the recipe's size. The rest is arithmetic: a step is played through for one rank (all do the same), with the
// strategy's messages on a wire of the given rate that carries one thing at a time and that backward passes overlap.
// Assumed: ranks are alike and disturb each other no more than here; a host's ranks share its network; the network passes
// what is not local at full rate in both directions at once; a message costs its latency once, and the sender some time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/causal_lm.h"
#include "nn/state_layout.h"
#include "recipe/recipe.h"

namespace dml {

struct Network {
  double bandwidth = 125e6 * 0.94;  // bytes a second and direction, headers taken off
  double latency = 100e-6;          // seconds
  int ranks_per_host = 1;
};

/// "1Gbit", "25gbit", "100Mbit", "12.5GB": bytes a second that are left for data. UserError.
double parse_bandwidth(const std::string& text);
/// "0.2ms", "20us", "1e-3s": seconds. UserError.
double parse_latency(const std::string& text);

/// What one rank needs on this machine, seconds.
struct Calibration {
  std::vector<double> forward, backward;  // by unit; the head's two are one pass and count as backward
  double update = 0;                      // all parameters
  double add = 0, copy = 0;               // seconds per float added up; per byte sent or received
  double pack = 0, unpack = 0;            // seconds per float rounded to bfloat16 for the wire, and back
  std::int64_t tokens = 0;                // of the micro-batch
  double pass() const;
};

struct StepForecast {
  std::string strategy;
  double step = 0, waiting = 0;  // seconds; waiting: those that are not computing
  double sent = 0;               // bytes a rank sends in a step
  std::int64_t memory = 0;       // bytes of a rank: values, gradients, state, communication, activations
};

class ScalingPlan {
 public:
  /// Builds the recipe's model (random weights where it has none) and measures.
  explicit ScalingPlan(const Recipe& recipe);
  const Calibration& calibration() const { return calibration_; }
  /// `micro_batches`: of a global step.
  StepForecast forecast(const std::string& strategy, int ranks, std::int64_t micro_batches,
                        const Network& network) const;
  /// Micro-batches of a step over so many ranks.
  std::int64_t micro_batches(int ranks) const { return recipe_.train.micro_batches_per_step(ranks); }

 private:
  void calibrate();

  const Recipe& recipe_;
  std::shared_ptr<const void> source_;
  std::unique_ptr<CausalLm> model_;
  StateLayout state_ = 0;
  std::size_t activations_ = 0, activations_in_parts_ = 0, frozen_ = 0;
  double computed_twice_ = 0;  // of a micro-batch's logits, where the head comes in parts
  Calibration calibration_;
};

}  // namespace dml
