// Writes the checkpoints of a run, one at a time: immediately, or from copies on a background thread while training
// continues. Every call is a collective, made between steps.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint_dir.h"
#include "train/background.h"
#include "train/step.h"

namespace dml {

/// The contents of a checkpoint besides the trainer's state: weights, optimizer state, tokenizer …
class CheckpointContents {
 public:
  virtual ~CheckpointContents() = default;
  /// Both write into `folder`, which all ranks share, and return the remaining jobs, which use nothing but files and
  /// copies. write() writes the current values directly; copy() copies them into `room` first. Collectives.
  virtual Jobs write(const std::string& folder) = 0;
  virtual Jobs copy(const std::string& folder, Snapshot& room) = 0;
};

struct SaverSettings {
  std::string output_dir;
  std::int64_t save_total_limit = 0;  // number of checkpoints to keep; 0: all
  bool in_background = false;         // write from copies on a background thread
};

class Saver {
 public:
  /// `parts` and `contents` outlive this.
  Saver(const StepParts& parts, CheckpointContents& contents, SaverSettings settings)
      : parts_(parts), contents_(contents), settings_(std::move(settings)) {}

  /// Begins a checkpoint of the current values; none may be in progress. `state` and `trainer` are read on rank 0.
  /// Error(distributed) when values that ranks replicate differ between them.
  void begin(const TrainState& state, const TrainerState& trainer);
  /// Advances the checkpoint in progress without waiting for its writes. Returns its path once it is complete, else "".
  std::string poll();
  /// Like poll(), but waits until the checkpoint is complete; "" when none is in progress.
  std::string finish();
  bool in_background() const { return settings_.in_background; }

 private:
  void begin_commit();
  std::string end();

  /// The checkpoint in progress; all members but `committing` are used on rank 0 only.
  struct Save {
    std::optional<CheckpointWriter> writer;
    TrainState state;
    TrainerState trainer;
    std::string path;
    bool committing = false;
  };

  const StepParts& parts_;
  CheckpointContents& contents_;
  SaverSettings settings_;
  Snapshot snapshot_;
  std::optional<Save> saving_;
  BackgroundWork work_;  // declared last: it is destroyed, and its thread joined, before the members that it reads
};

}  // namespace dml
