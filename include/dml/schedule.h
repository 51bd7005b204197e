// A learning-rate schedule: the factor of the peak as a pure function of the step.
#pragma once

#include "dml/registry.h"

namespace dml::plugin {

/// The position of a step: step s of T, after a warmup of W steps.
struct SchedulePlace {
  double step = 0, warmup = 0, steps = 0;  // s, W, T
  /// 0 at the end of the warmup, 1 at the end of the run.
  double progress() const { return steps > warmup ? (step - warmup) / (steps - warmup) : 1; }
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  /// The learning rate as a factor of the peak. Not called for the steps of the warmup, which is linear.
  virtual double factor(const SchedulePlace& place) const = 0;
};

}  // namespace dml::plugin
