// A learning-rate schedule: a factor of the peak learning rate as a pure function of the step.
#pragma once

#include "dml/registry.h"

namespace dml::plugin {

/// The position of a step: step s of T, after a warmup of W steps.
struct SchedulePosition {
  double step = 0, warmup = 0, steps = 0;  // s, W, T
  /// 0 at the end of the warmup, 1 at the end of the run.
  double progress() const { return steps > warmup ? (step - warmup) / (steps - warmup) : 1; }
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  /// The learning rate ÷ its peak. Not called during the warmup, which is linear.
  virtual double factor(const SchedulePosition& place) const = 0;
};

}  // namespace dml::plugin
