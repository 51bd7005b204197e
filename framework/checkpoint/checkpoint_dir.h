// Checkpoint folders "OUTPUT/checkpoint-STEP": written so that a kill at any instant leaves the earlier ones and either
// this one whole or nothing.
//
// manifest.json is written last and names every file with its size and XXH3-128. A folder is a checkpoint when its
// manifest says so and its files agree; everything else is passed over with the reason. The files `latest` and `best`
// are hints for people: discovery reads manifests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/train_state.h"
#include "core/files.h"

namespace dml {

class CheckpointWriter {
 public:
  CheckpointWriter(std::string output_dir, std::int64_t step);

  /// Fill this folder: weights, config, tokenizer …
  const std::string& path() const { return folder_.path(); }
  /// Writes state, trainer state and manifest, makes the folder appear, and points `latest` (and `best`, when this step
  /// is the best) at it. Returns its path.
  std::string commit(const TrainState& state, const TrainerState& trainer);

 private:
  std::string output_dir_;
  std::int64_t step_;
  DirectoryWriter folder_;
};

/// Writes DIRECTORY/manifest.json over all files in it, subfolders included; `facts` are added.
void write_manifest(const std::string& directory, const Json& facts);
/// Why the folder is not whole; "" when it is. Without `contents` only names and sizes are compared.
std::string manifest_problem(const std::string& directory, bool contents = true);

struct Checkpoint {
  std::string path;
  std::int64_t step = 0;
};
struct FoundCheckpoint {
  std::optional<Checkpoint> newest;
  std::vector<std::string> skipped;  // one line each: folder and reason
};

/// All "checkpoint-STEP" folders, newest first, valid or not.
std::vector<Checkpoint> list_checkpoints(const std::string& output_dir);
/// The newest whose contents agree with its manifest.
FoundCheckpoint find_checkpoint(const std::string& output_dir);
/// Reads dml_state.json; UserError when the folder is not whole.
TrainState load_train_state(const std::string& checkpoint);

/// Clears what killed runs of this folder left behind: temporary files and folders whose process is gone, or goes
/// within `patience` seconds.
void remove_left_over(const std::string& output_dir, double patience = 0);
/// Clears the temporary folders that killed writers of the very folder `target` left beside it.
void remove_left_over_of(const std::string& target);
/// Removes one checkpoint, valid or not; `latest` and `best` do not name it any more.
void remove_checkpoint(const Checkpoint& checkpoint);

/// Keeps at most `limit` valid checkpoints (0: all), the newest and `best_step` always among them; clears what killed
/// runs of this folder left behind. Folders that are not valid checkpoints are never touched.
void rotate_checkpoints(const std::string& output_dir, std::int64_t limit, std::int64_t best_step = -1);

}  // namespace dml
