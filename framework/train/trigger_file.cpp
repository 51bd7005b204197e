#include "train/trigger_file.h"

#include <filesystem>

#include "core/log.h"

namespace dml {

Action TriggerFile::on_step(const StepMetrics& metrics) {
  std::error_code error;
  if (metrics.step % interval_ != 0 || !std::filesystem::exists(path_, error)) return {};
  if (!std::filesystem::remove(path_, error) && error) {
    log_warning("{}: the trigger of a checkpoint cannot be removed: {}", path_, error.message());
    return {};
  }
  log_info("{}: saving a checkpoint after step {}, as this file asks", path_, metrics.step);
  return {.save = true};
}

}  // namespace dml
