// Detects a run that trains nothing: the gradient of a step is exactly zero although it has trained tokens. The usual
// reasons are weights of 0 in the data and trained modules that the loss does not depend on.
#pragma once

#include <string>

#include "core/log.h"
#include "train/observer.h"

namespace dml {

/// Warns about the first such step of a run.
class ZeroGradient : public Observer {
 public:
  Action on_step(const StepMetrics& metrics) override {
    if (metrics.trained_tokens == 0 || metrics.grad_norm != 0 || !warning_.empty()) return {};
    warning_ = fmt::format(
        "the gradient of step {} is 0, so it changed nothing: either the weights of its rows and messages are 0, or "
        "the loss does not depend on the trained modules",
        metrics.step);
    log_warning("{}", warning_);
    return {};
  }
  /// The warning; "" if there was none.
  const std::string& warning() const { return warning_; }

 private:
  std::string warning_;
};

}  // namespace dml
