#include "train/limits.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/json.h"

namespace dml {

Action LossWatchdog::on_step(const StepMetrics& metrics) {
  above_ = metrics.loss <= threshold_ ? 0 : above_ + 1;  // also when it is not a number
  if (above_ >= patience_)
    throw Error(ExitCode::diverged, fmt::format("step {}: loss {:.4f} is above loss_watchdog_threshold {} for {} steps",
                                                metrics.step, metrics.loss, threshold_, above_));
  return {};
}

void LossWatchdog::write_state(TrainState& state) const { state.extra["loss_watchdog"] = above_; }

void LossWatchdog::read_state(const TrainState& state, const std::string& source) {
  above_ = json_integer(state.extra, "loss_watchdog", 0, source);
}

}  // namespace dml
