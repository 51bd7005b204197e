#include "jinja/meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jinja/value.h"

namespace dml::jinja {
namespace {

thread_local Meter* running = nullptr;

}  // namespace

Meter::Meter(std::int64_t max_steps) : max_steps_(max_steps), outer_(std::exchange(running, this)) {}
Meter::~Meter() { running = outer_; }

void Meter::work(std::int64_t steps) {
  if (!running) return;
  running->steps_ += steps;
  if (running->steps_ > running->max_steps_)
    throw Failure{fmt::format("stopped after {} steps: this template does too much work", running->max_steps_)};
}

Weight::Weight(std::size_t bytes) {
  if (!running) return;
  if (bytes > kMaxHeld - running->held_) throw Failure{fmt::format("its values take more than {} MiB", kMaxHeld >> 20)};
  running->held_ += bytes_ = bytes;
}

Weight::~Weight() {
  if (running) running->held_ -= std::min(bytes_, running->held_);
}

}  // namespace dml::jinja
