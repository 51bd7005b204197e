#include "diagnose/recorded_pass.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace dml {

void RecordedPass::play(UnitHooks& hooks, const std::function<void(double)>& compute) const {
  for (const Call& call : calls_) {
    compute(call.before);
    call.hook(hooks);
  }
  compute(after_last_);
}

double RecordedPass::seconds() const {
  double sum = after_last_;
  for (const Call& call : calls_) sum += call.before;
  return sum;
}

void RecordedPass::take_faster(const RecordedPass& again) {
  DML_CHECK(calls_.size() == again.calls_.size());
  for (std::size_t i = 0; i < calls_.size(); ++i) calls_[i].before = std::min(calls_[i].before, again.calls_[i].before);
  after_last_ = std::min(after_last_, again.after_last_);
}

UnitHooks& PassRecorder::hooks(UnitHooks& strategy) {
  strategy_ = &strategy;
  return *this;
}

void PassRecorder::record(std::function<void(UnitHooks&)> hook) {
  const double before = seconds_since(since_);
  hook(*strategy_);
  pass_.calls_.push_back({before, std::move(hook)});
  since_ = Clock::now();
}

void PassRecorder::before_forward(int unit) {
  record([=](UnitHooks& to) { to.before_forward(unit); });
}

void PassRecorder::after_forward(int unit) {
  record([=](UnitHooks& to) { to.after_forward(unit); });
}

void PassRecorder::before_backward(int unit) {
  record([=](UnitHooks& to) { to.before_backward(unit); });
}

void PassRecorder::before_gradient(int unit) {
  record([=](UnitHooks& to) { to.before_gradient(unit); });
}

void PassRecorder::after_backward(int unit) {
  record([=](UnitHooks& to) { to.after_backward(unit); });
}

void PassRecorder::before_values(std::size_t unit, std::size_t part, int direction) {
  record([=](UnitHooks& to) { to.before_values(unit, part, direction); });
}

void PassRecorder::before_part_gradient(std::size_t unit, std::size_t part) {
  record([=](UnitHooks& to) { to.before_part_gradient(unit, part); });
}

void PassRecorder::after_part_gradient(std::size_t unit, std::size_t part) {
  record([=](UnitHooks& to) { to.after_part_gradient(unit, part); });
}

}  // namespace dml
