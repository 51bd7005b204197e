// The steps after which a run evaluates and saves, known before the run begins.
#pragma once

#include <optional>

#include "data/schedule.h"
#include "recipe/recipe.h"

namespace dml {

/// "Every n steps", "k times an epoch" or never. Epochs are counted by their actual boundaries.
class Interval {
 public:
  Interval() = default;
  Interval(IntervalStrategy cadence, std::optional<double> steps, std::optional<double> per_epoch,
           std::int64_t total_steps);
  /// Whether an event is due after step s, counted from 0; `before` and `after`: the epochs done before and after step
  /// s.
  bool due(std::int64_t step, double before, double after) const;
  /// The number of steps between events; 0 if they do not come every so many steps.
  std::int64_t steps() const { return every_; }

 private:
  std::int64_t every_ = 0;  // steps
  double per_epoch_ = 0;
};

class Calendar {
 public:
  Calendar(const TrainSection& train, const Schedule& schedule);
  bool evaluates(std::int64_t step) const;
  bool saves(std::int64_t step) const;
  /// Steps between evaluations, or checkpoints; 0 if they do not come every so many steps.
  std::int64_t eval_steps() const { return evaluate_.steps(); }
  std::int64_t save_steps() const { return save_.steps(); }
  /// The number of evaluations of the whole run.
  std::int64_t evaluations() const;
  /// The number of checkpoints of a run that begins after `from_step` steps.
  std::int64_t checkpoints(std::int64_t from_step = 0) const;

 private:
  bool due(const Interval& interval, std::int64_t step) const;

  const Schedule& schedule_;
  Interval evaluate_, save_;
  bool evaluates_last_, save_first_, save_last_;
};

}  // namespace dml
