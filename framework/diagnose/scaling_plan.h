// dml plan --ranks: predicts the step time, and the memory of a rank, under each strategy without the machines.
//
// The computation times of one rank (the model between its hooks, the update) are recorded here on one micro-batch of
// synthetic data of the recipe's size. Then a step runs with the real strategy on a simulated rank
// (dist/simulated_comm.h): the recorded pass calls the strategy's hooks, and its exchanges take time on a virtual
// clock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "diagnose/recorded_pass.h"
#include "dist/simulated_comm.h"
#include "dist/strategy.h"
#include "model/causal_lm.h"
#include "nn/state_layout.h"
#include "recipe/recipe.h"

namespace dml {

/// Parses "1Gbit", "25gbit", "100Mbit" or "12.5GB" to payload bytes per second. UserError.
double parse_bandwidth(const std::string& text);
/// Parses "0.2ms", "20us" or "1e-3s" to seconds. UserError.
double parse_latency(const std::string& text);

/// Times of one rank on this machine, in seconds.
struct Calibration {
  double pass = 0, update = 0;  // forward and backward of one micro-batch; update of all parameters
  std::int64_t tokens = 0;      // of the micro-batch
  ExchangeCosts costs;
};

struct StepForecast {
  std::string strategy;
  double step = 0, waiting = 0;  // seconds; waiting: the part without computation
  double sent = 0;               // bytes a rank sends in a step
  std::int64_t memory = 0;       // bytes of a rank: values, gradients, state, communication, activations
};

class ScalingPlan {
 public:
  /// Builds the recipe's model (with random weights if it has none) and measures it.
  explicit ScalingPlan(const Recipe& recipe);
  const Calibration& calibration() const { return calibration_; }
  /// `micro_batches`: of a global step.
  StepForecast forecast(const std::string& strategy, int ranks, std::int64_t micro_batches,
                        const Network& network) const;
  /// Number of micro-batches of a step over `ranks` ranks.
  std::int64_t micro_batches(int ranks) const { return recipe_.train.micro_batches_per_step(ranks); }

 private:
  // Whether values, and gradients, are bound part by part. Strategies with the same binding have the same hooks.
  using Binding = std::pair<bool, bool>;
  struct Recorded {
    RecordedPass pass;
    double update = 0;
    std::size_t activations = 0;
  };
  static Binding binding_of(const ParameterStore& store);
  void calibrate();
  void record(const std::string& strategy, const PackedBatch& batch);
  void play(StepForecast& out, int ranks, std::int64_t total, const Network& network,
            const DistributionOptions& options) const;
  void hold(StepForecast& out, int ranks, std::int64_t total, const Network& network,
            const DistributionOptions& options) const;

  const Recipe& recipe_;
  std::shared_ptr<const void> source_;
  std::unique_ptr<CausalLm> model_;
  StateLayout state_ = 0;
  std::size_t frozen_ = 0;
  std::map<Binding, Recorded> recorded_;
  Calibration calibration_;
};

}  // namespace dml
