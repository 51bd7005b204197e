// lr_scheduler: reduce_lr_on_plateau. The learning rate is multiplied by `factor` when the metric of the best model has
// not improved for more than `patience` evaluations. The rule and its defaults are those of torch.optim's
// ReduceLROnPlateau; like the Trainer of transformers, it does not count an evaluation before training.
#pragma once

#include <optional>

#include "train/observer.h"

namespace dml {

struct PlateauSettings {
  Metric metric;
  double peak = 0;  // learning_rate
  double factor = 0.1, threshold = 1e-4, min_lr = 0, eps = 1e-8;
  std::int64_t patience = 10, cooldown = 0;
  bool relative = true;  // threshold_mode: rel
};

/// Reads lr_scheduler_kwargs; UserError for the first argument that is out of range. `mode: min` or `max` overrides the
/// metric's direction.
PlateauSettings plateau_settings(const Json& kwargs, Metric metric, double peak);

class Plateau : public Observer {
 public:
  explicit Plateau(PlateauSettings settings) : settings_(std::move(settings)) {}

  double learning_rate(double planned) const override { return planned * scale_; }
  Action on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& samples) override;
  void write_state(TrainState& state) const override;
  void read_state(const TrainState& state, const std::string& source) override;

 private:
  bool better(double value) const;

  PlateauSettings settings_;
  std::optional<double> best_;
  double scale_ = 1;
  std::int64_t bad_ = 0, cooling_ = 0;  // evaluations without improvement; evaluations left in the cooldown
};

}  // namespace dml
