// A pass over the model as a strategy sees it: the hooks in their order, and the seconds that the model computes before
// each. Recorded once on this machine, it is played to strategies on ranks that are not there.
#pragma once

#include <functional>
#include <vector>

#include "core/clock.h"
#include "train/step.h"

namespace dml {

class RecordedPass {
 public:
  /// Calls the hooks; `compute` is told of the seconds before each, and of those after the last one.
  void play(UnitHooks& hooks, const std::function<void(double seconds)>& compute) const;
  /// Of the model, without what hooks took.
  double seconds() const;
  /// Of each interval between two hooks the shorter time counts; `again` is the same pass once more.
  void take_faster(const RecordedPass& again);

 private:
  friend class PassRecorder;
  struct Call {
    double before = 0;  // seconds
    std::function<void(UnitHooks&)> hook;
  };
  std::vector<Call> calls_;
  double behind_ = 0;
};

/// Watches a step of one micro-batch.
class PassRecorder : public StepWatcher, private UnitHooks {
 public:
  const RecordedPass& pass() const { return pass_; }
  /// Seconds since the gradients were complete: after run_step(), those of the update.
  double since_exchange() const { return seconds_since(exchanged_); }

  UnitHooks& hooks(UnitHooks& strategy) override;
  void pass_begins() override { since_ = Clock::now(); }
  void pass_ended(std::int64_t, std::int64_t) override { pass_.behind_ = seconds_since(since_); }
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
