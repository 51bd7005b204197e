// Observers that end a run early or make it save: signals, a time limit, a loss that stays too high.
#pragma once

#include <optional>

#include "core/clock.h"
#include "train/observer.h"
#include "train/signals.h"

namespace dml {

/// Signals of this process; those of other ranks come with their answers.
class SignalRequests : public Observer {
 public:
  /// `save_on_stop`: a checkpoint before a signal stops the run.
  explicit SignalRequests(bool save_on_stop) : save_on_stop_(save_on_stop) {}
  Action on_step(const StepMetrics&) override {
    const SignalRequest request = signals_.take();
    const bool stop = request == SignalRequest::stop;
    return {.save = request == SignalRequest::save || (stop && save_on_stop_), .stop = stop};
  }

 private:
  SignalWatch signals_;
  bool save_on_stop_;
};

/// The run saves and stops this many seconds after `start`.
class TimeLimit : public Observer {
 public:
  TimeLimit(Clock::time_point start, double seconds) : start_(start), seconds_(seconds) {}
  Action on_step(const StepMetrics&) override {
    const bool late = seconds_since(start_) >= seconds_;
    return {.save = late, .stop = late};
  }

 private:
  Clock::time_point start_;
  double seconds_;
};

/// Error(diverged) when the loss stays above a threshold for a number of steps in a row.
class LossWatchdog : public Observer {
 public:
  LossWatchdog(double threshold, std::int64_t patience) : threshold_(threshold), patience_(patience) {}
  Action on_step(const StepMetrics& metrics) override;

 private:
  double threshold_;
  std::int64_t patience_, above_ = 0;
};

}  // namespace dml
