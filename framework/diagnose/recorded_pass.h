// A pass over the model as a strategy sees it: the sequence of hooks, and the seconds of computation before each. It is
// recorded once on this machine and replayed to strategies on simulated ranks.
#pragma once

#include <functional>
#include <vector>

#include "core/clock.h"
#include "train/step.h"

namespace dml {

class RecordedPass {
 public:
  /// Calls the hooks; passes the seconds before each, and those after the last one, to `compute`.
  void play(UnitHooks& hooks, const std::function<void(double seconds)>& compute) const;
  /// Seconds of the model's computation, without the time spent in hooks.
  double seconds() const;
  /// Keeps the shorter time of each interval between two hooks; `again` is another recording of the same pass.
  void take_faster(const RecordedPass& again);

 private:
  friend class PassRecorder;
  struct Call {
    double before = 0;  // seconds
    std::function<void(UnitHooks&)> hook;
  };
  std::vector<Call> calls_;
  double after_last_ = 0;
};

/// Records a step of one micro-batch.
class PassRecorder : public StepWatcher, private UnitHooks {
 public:
  const RecordedPass& pass() const { return pass_; }
  /// Seconds since the exchange of gradients ended: after run_step(), the duration of the update.
  double since_exchange() const { return seconds_since(exchanged_); }

  UnitHooks& hooks(UnitHooks& strategy) override;
  void pass_begins() override { since_ = Clock::now(); }
  void pass_ended(std::int64_t, std::int64_t) override { pass_.after_last_ = seconds_since(since_); }
  void exchange_ended() override { exchanged_ = Clock::now(); }

 private:
  void before_forward(int unit) override;
  void after_forward(int unit) override;
  void before_backward(int unit) override;
  void before_gradient(int unit) override;
  void after_backward(int unit) override;
  void before_values(std::size_t unit, std::size_t part, int direction) override;
  void before_part_gradient(std::size_t unit, std::size_t part) override;
  void after_part_gradient(std::size_t unit, std::size_t part) override;
  void record(std::function<void(UnitHooks&)> hook);

  UnitHooks* strategy_ = nullptr;
  RecordedPass pass_;
  Clock::time_point since_, exchanged_;
};

}  // namespace dml
