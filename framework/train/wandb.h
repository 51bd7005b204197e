// Weights & Biases offline runs: writes the folder that `wandb sync DIR` uploads. Nothing is sent.
//
// wandb/offline-run-DATE-ID/run-ID.wandb: a header of 7 bytes, then protobuf records in LevelDB's log format: blocks of
// 32 KiB; each record or fragment has a CRC-32 of its type and data (u32), its length (u16) and its type (full, first,
// middle, last). Source: wandb's sdk/internal/datastore.py and proto/wandb_internal.proto.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/appended_file.h"
#include "train/observer.h"

namespace dml {

/// Splits records into fragments of LevelDB's log format, as in wandb's files.
class WandbFraming {
 public:
  /// The header of the file.
  static std::string header();
  /// Encodes one record at the current position of the file.
  std::string framed(std::string_view record);

 private:
  std::size_t in_block_ = 7;  // bytes written of the current block, including the header
};

class WandbRun : public Observer {
 public:
  struct Settings {
    std::string root;                                                       // parent of the folder `wandb`
    std::string project = {}, entity = {}, name = {}, id = {}, group = {};  // "" if not set in the recipe
  };
  explicit WandbRun(Settings settings) : settings_(std::move(settings)) {}

  Action on_start(const RunFacts& facts) override;
  Action on_step(const StepMetrics& metrics) override;
  Action on_eval(const EvalMetrics& metrics, const std::vector<SampleMetrics>& samples) override;
  void before_save() override { file_->sync(); }
  void on_end(const RunEnd& end) override;

 private:
  using Values = std::vector<std::pair<std::string, double>>;
  void write(int field, const std::string& message);
  void history(std::int64_t step, const Values& values);
  /// Writes the pending values as one row of the history, which holds all values of a step.
  void flush();

  Settings settings_;
  WandbFraming framing_;
  std::unique_ptr<AppendedFile> file_;
  std::int64_t records_ = 0, pending_step_ = -1;
  double started_ = 0;
  Values pending_, latest_;
};

}  // namespace dml
