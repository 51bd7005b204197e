// A checkpoint on demand: when the file `path` appears, the run saves a checkpoint and removes the file (Axolotl's
// dynamic_checkpoint).
#pragma once

#include <string>

#include "train/observer.h"

namespace dml {

class TriggerFile : public Observer {
 public:
  /// Looks for `path` after every `interval` steps.
  TriggerFile(std::string path, std::int64_t interval) : path_(std::move(path)), interval_(interval) {}
  Action on_step(const StepMetrics& metrics) override;

 private:
  std::string path_;
  std::int64_t interval_;
};

}  // namespace dml
