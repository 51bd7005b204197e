#include "assembly/calendar.h"

#include <algorithm>
#include <cmath>

namespace dml {
namespace {

constexpr double kSlack = 1e-9;  // tolerance of sums and products that should be whole numbers

}  // namespace

Interval::Interval(IntervalStrategy cadence, std::optional<double> steps, std::optional<double> per_epoch,
                   std::int64_t total_steps) {
  if (cadence == IntervalStrategy::never) return;
  if (steps && cadence != IntervalStrategy::epoch) {
    // Below 1: a share of the run. 0.07 of 100 steps is 7, although the product is slightly above.
    double n = *steps < 1 ? std::ceil(*steps * static_cast<double>(total_steps) - kSlack) : *steps;
    every_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(n));
  } else {
    per_epoch_ = cadence == IntervalStrategy::epoch ? 1 : per_epoch.value_or(1);
  }
}

bool Interval::due(std::int64_t step, double before, double after) const {
  if (every_ > 0) return (step + 1) % every_ == 0;
  return per_epoch_ > 0 && std::floor(after * per_epoch_ + kSlack) > std::floor(before * per_epoch_ + kSlack);
}

Calendar::Calendar(const TrainSection& train, const Schedule& schedule)
    : schedule_(schedule),
      evaluate_(train.eval_strategy, train.eval_steps, train.evals_per_epoch, schedule.steps()),
      save_(train.save_strategy == IntervalStrategy::best ? train.eval_strategy : train.save_strategy,
            train.save_strategy == IntervalStrategy::best ? train.eval_steps : train.save_steps,
            train.save_strategy == IntervalStrategy::best ? train.evals_per_epoch : train.saves_per_epoch,
            schedule.steps()),
      evaluates_last_(train.eval_strategy != IntervalStrategy::never),
      save_first_(train.save_first_step),
      save_last_(train.save_strategy != IntervalStrategy::never && train.save_strategy != IntervalStrategy::best) {}

bool Calendar::due(const Interval& interval, std::int64_t step) const {
  double before = step == 0 ? 0 : schedule_.step(step - 1).epochs_done;
  return interval.due(step, before, schedule_.step(step).epochs_done);
}

bool Calendar::evaluates(std::int64_t step) const {
  return due(evaluate_, step) || (evaluates_last_ && step + 1 == schedule_.steps());
}
bool Calendar::saves(std::int64_t step) const { return due(save_, step) || (save_first_ && step == 0); }

std::int64_t Calendar::evaluations() const {
  std::int64_t n = 0;
  for (std::int64_t s = 0; s < schedule_.steps(); ++s) n += evaluates(s);
  return n;
}

std::int64_t Calendar::checkpoints(std::int64_t from_step) const {
  std::int64_t n = 0;
  for (std::int64_t s = from_step; s < schedule_.steps(); ++s)
    n += saves(s) || (save_last_ && s + 1 == schedule_.steps());
  return n;
}

}  // namespace dml
