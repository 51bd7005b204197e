// Checkpoints of a run, one at a time: written at once, or by a thread from copies while steps run. Every call is a
// collective, between steps.
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
  /// Both write into `folder`, which all ranks see, and return what is left to be written, which touches nothing but
  /// files and copies: at once, or from copies in `room`. Collectives.
  virtual Jobs write(const std::string& folder) = 0;
  virtual Jobs copy(const std::string& folder, Snapshot& room) = 0;
};

struct SaverSettings {
  std::string output_dir;
  std::int64_t save_total_limit = 0;  // checkpoints that are kept; 0: all
  bool in_background = false;         // there is memory for copies
};

class Saver {
 public:
  /// `parts` and `contents` outlive this.
  Saver(const StepParts& parts, CheckpointContents& contents, SaverSettings settings)
      : parts_(parts), contents_(contents), settings_(std::move(settings)) {}

  /// Begins the checkpoint of this moment; none is under way. `state` and `trainer` count on rank 0. Error(distributed)
  /// when copies of a value differ between ranks.
  void begin(const TrainState& state, const TrainerState& trainer);
  /// Advances the checkpoint under way without waiting for its writing; its path when it has become complete, else "".
  std::string poll();
  /// Like poll(), but waits until the checkpoint is complete; "" when none is under way.
  std::string finish();
  bool in_background() const { return settings_.in_background; }

 private:
  void begin_commit();
  std::string end();

  /// The checkpoint under way; all but `committing` on rank 0.
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
  BackgroundWork work_;  // declared last, so that it ends before the members that it reads
};

}  // namespace dml
