// Weights & Biases, offline: a run in the form that `wandb sync DIR` uploads. Nothing is sent.
//
// wandb/offline-run-DATE-ID/run-ID.wandb: a header of 7 bytes, then records of protobuf in LevelDB's log framing:
// blocks of 32 KiB; a record, or a piece of one, has a CRC-32 of its type and data (u32), its length (u16), its type
// (whole, first, middle, last). Source: wandb's sdk/internal/datastore.py and proto/wandb_internal.proto.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/appended_file.h"
#include "train/observer.h"

namespace dml {

/// Pieces of LevelDB's log, as wandb's files have them.
class WandbFraming {
 public:
  /// The header of the file.
  static std::string header();
  /// The bytes of one record at this place of the file.
  std::string framed(std::string_view record);

 private:
  std::size_t in_block_ = 7;  // bytes of the current block that are written: the header counts
};

class WandbRun : public Observer {
 public:
  struct Settings {
    std::string root;                                                       // the folder `wandb` is made in
    std::string project = {}, entity = {}, name = {}, id = {}, group = {};  // "" where the recipe says nothing
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
  /// The values of the step written last: a row of history has all values of its step.
  void flush();

  Settings settings_;
  WandbFraming framing_;
  std::unique_ptr<AppendedFile> file_;
  std::int64_t records_ = 0, pending_step_ = -1;
  double started_ = 0;
  Values pending_, latest_;
};

}  // namespace dml
