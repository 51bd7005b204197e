// The best evaluation so far, and patience: a run may keep its best model, and stop when evaluations do not improve.
#pragma once

#include <optional>

#include "train/observer.h"

namespace dml {

class BestModel : public Observer {
 public:
  struct Settings {
    Metric metric;                         // what makes a model better
    bool save = false;                     // a checkpoint of every best model
    std::optional<std::int64_t> patience;  // finish after this many evaluations without improvement
  };
  explicit BestModel(Settings settings) : settings_(std::move(settings)) {}

  const Metric& metric() const { return settings_.metric; }
  Action on_start(const RunFacts&) override { return ending(); }
  /// Evaluations without the metric count neither way. A value that is not a number is never the best.
  Action on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& samples) override;
  void write_state(TrainState& state) const override;
  void read_state(const TrainState& state, const std::string& source) override;

 private:
  Action ending() const;

  Settings settings_;
  std::optional<double> best_;
  std::int64_t best_step_ = -1, without_improvement_ = 0;
};

}  // namespace dml
