// Tracks the best evaluation so far: a run may keep its best model, and stop early when evaluations stop improving.
#pragma once

#include <optional>

#include "train/observer.h"

namespace dml {

class BestModel : public Observer {
 public:
  struct Settings {
    Metric metric;                         // the metric that decides which model is the best
    bool save = false;                     // save a checkpoint whenever the metric improves
    std::optional<std::int64_t> patience;  // finish after this many evaluations without improvement
  };
  explicit BestModel(Settings settings) : settings_(std::move(settings)) {}

  const Metric& metric() const { return settings_.metric; }
  Action on_start(const RunFacts&) override { return ending(); }
  /// An evaluation without the metric neither improves it nor counts towards patience, and as with transformers neither
  /// does the one before the first step. NaN is never the best value.
  Action on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& samples) override;
  void on_end(const RunEnd& end) override;
  void write_state(TrainState& state) const override;
  void read_state(const TrainState& state, const std::string& source) override;

 private:
  Action ending() const;

  Settings settings_;
  std::optional<double> best_;
  std::int64_t best_step_ = -1, without_improvement_ = 0;
};

}  // namespace dml
