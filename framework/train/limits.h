// Observers that stop a run or request a checkpoint: signals, a time limit, a loss above a threshold.
#pragma once

#include "core/clock.h"
#include "train/observer.h"
#include "train/signals.h"

namespace dml {

/// Turns signals that this process received into requests; the ranks combine their requests afterwards.
class SignalRequests : public Observer {
 public:
  /// `save_on_stop`: save a checkpoint before a signal stops the run.
  explicit SignalRequests(bool save_on_stop) : save_on_stop_(save_on_stop) {}
  Action on_step(const StepMetrics&) override { return requests(); }
  Action on_eval(const EvalMetrics&, const std::vector<SampleMetrics>&) override { return requests(); }
  Action interrupts() const override {
    const bool stop = signals_.stopping();
    return {.save = stop && save_on_stop_, .stop = stop};
  }

 private:
  Action requests() {
    const SignalRequest request = signals_.take();
    const bool stop = request == SignalRequest::stop;
    return {.save = request == SignalRequest::save || (stop && save_on_stop_), .stop = stop};
  }

  SignalWatch signals_;
  bool save_on_stop_;
};

/// Saves and stops the run `seconds` seconds after `start`.
class TimeLimit : public Observer {
 public:
  TimeLimit(Clock::time_point start, double seconds) : start_(start), seconds_(seconds) {}
  Action on_step(const StepMetrics&) override { return ending(); }
  Action on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>&) override {
    return metrics.step > 0 ? ending() : Action{};  // every run makes a step
  }

 private:
  Action ending() const {
    const bool late = seconds_since(start_) >= seconds_;
    return {.save = late, .stop = late};
  }

  Clock::time_point start_;
  double seconds_;
};

/// Throws Error(diverged) when the loss exceeds `threshold` in `patience` consecutive steps.
class LossWatchdog : public Observer {
 public:
  LossWatchdog(double threshold, std::int64_t patience) : threshold_(threshold), patience_(patience) {}
  Action on_step(const StepMetrics& metrics) override;
  void write_state(TrainState& state) const override;
  void read_state(const TrainState& state, const std::string& source) override;

 private:
  double threshold_;
  std::int64_t patience_, above_ = 0;
};

}  // namespace dml
