// TensorBoard: an event file with a scalar for every number of a step and an evaluation, under the names that the
// Trainer of transformers gives them (train/loss, eval/loss …), and the texts of samples.
//
// The file is a sequence of records: length (u64), its masked CRC-32C (u32), an Event message in protobuf encoding, its
// masked CRC-32C (u32). A resumed run adds a file; for a step in both, TensorBoard shows the later value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/appended_file.h"
#include "train/observer.h"

namespace dml {

class TensorboardEvents : public Observer {
 public:
  /// Creates `folder` and the event file in it. IoError when it cannot be written.
  explicit TensorboardEvents(std::string folder);

  Action on_start(const RunFacts& facts) override;
  Action on_step(const StepMetrics& metrics) override;
  Action on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& samples) override;
  void before_save() override { file_.sync(); }
  void on_end(const RunEnd&) override { file_.sync(); }

 private:
  void write(double wall_time, std::int64_t step, const std::string& summary);

  AppendedFile file_;
};

namespace tensorboard {

/// Wraps `data` as a record of an event file.
std::string record(std::string_view data);
/// The first event of a file; `wall_time` in seconds since 1970.
std::string version_event(double wall_time);
std::string event(double wall_time, std::int64_t step, const std::string& summary);
/// Encoded values of a Summary message; a summary is their concatenation.
std::string scalar(std::string_view tag, double value);
std::string text(std::string_view tag, std::string_view text);
/// "loss" → "train/loss", "eval_loss" → "eval/loss".
std::string tag_of(std::string_view name);

}  // namespace tensorboard
}  // namespace dml
