#include "train/limits.h"

#include <fmt/format.h>

#include "core/error.h"

namespace dml {

Action LossWatchdog::on_step(const StepMetrics& metrics) {
  above_ = metrics.loss <= threshold_ ? 0 : above_ + 1;  // also when it is not a number
  if (above_ >= patience_)
    throw Error(ExitCode::diverged, fmt::format("step {}: loss {:.4f} is above loss_watchdog_threshold {} for {} steps",
                                                metrics.step, metrics.loss, threshold_, above_));
  return {};
}

}  // namespace dml
