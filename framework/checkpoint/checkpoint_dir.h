// Checkpoint folders "OUTPUT/checkpoint-STEP". They are written such that a kill at any time leaves earlier checkpoints
// intact, and this one either complete or absent.
//
// manifest.json is written last and lists every file with its size and XXH3-128. A folder is a valid checkpoint if its
// files match its manifest; others are skipped with a reason. The files `latest` and `best` are for users only:
// checkpoints are found by their manifests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/train_state.h"
#include "core/files.h"

namespace dml {

inline constexpr std::string_view kCheckpointPrefix = "checkpoint-";
/// "OUTPUT_DIR/checkpoint-STEP".
std::string checkpoint_path(const std::string& output_dir, std::int64_t step);
/// The output directory that a checkpoint is in.
std::string run_folder_of(const std::string& checkpoint);
/// The checkpoint of the best evaluation: in `output_dir`, or where remember_best_checkpoint() found it.
std::string best_checkpoint_of(const TrainState& state, const std::string& output_dir);
/// For a run in `output_dir` that resumes from a checkpoint elsewhere: adds to its state where its best one is.
void remember_best_checkpoint(TrainState& state, const std::string& checkpoint, const std::string& output_dir);

class CheckpointWriter {
 public:
  CheckpointWriter(std::string output_dir, std::int64_t step);

  /// The temporary folder to write weights, config, tokenizer … into.
  const std::string& path() const { return folder_.path(); }
  /// Writes state, trainer state and manifest, renames the folder to its final name, and updates `latest` (and `best`
  /// if this step is the best). Returns the final path. UserError when the state could not be read again.
  std::string commit(const TrainState& state, const TrainerState& trainer);

 private:
  std::string output_dir_;
  std::int64_t step_;
  DirectoryWriter folder_;
};

/// Writes DIRECTORY/manifest.json, which lists all files in it and its subfolders; `facts` are added.
void write_manifest(const std::string& directory, const Json& facts);
/// What is compared with a manifest: names and sizes of the files, or also their contents.
enum class Compare { sizes, contents };
/// Why the folder does not match its manifest; "" if it does.
std::string manifest_problem(const std::string& directory, Compare what = Compare::contents);

struct Checkpoint {
  std::string path;
  std::int64_t step = 0;
};
struct FoundCheckpoint {
  std::optional<Checkpoint> newest;
  std::vector<std::string> skipped;  // one line each: folder and reason
};

/// Why a checkpoint is not valid: its files do not match its manifest, or its state is that of another step; "" if it
/// is valid.
std::string checkpoint_problem(const Checkpoint& checkpoint, Compare what = Compare::contents);
/// All "checkpoint-STEP" folders, newest first, valid or not.
std::vector<Checkpoint> list_checkpoints(const std::string& output_dir);
/// The newest valid checkpoint; contents are compared with the manifests.
FoundCheckpoint find_checkpoint(const std::string& output_dir);
/// Reads dml_state.json. UserError when the folder is not a valid checkpoint.
TrainState load_train_state(const std::string& checkpoint);

/// Removes a checkpoint, valid or not, and any reference to it in `latest` and `best`. IoError when it cannot be
/// removed.
void remove_checkpoint(const Checkpoint& checkpoint);

/// Removes old checkpoints: keeps at most `limit` valid ones (0: all), always including the newest and `best_step`.
/// Also removes what killed runs left. Folders that are not valid checkpoints are not touched.
void rotate_checkpoints(const std::string& output_dir, std::int64_t limit, std::int64_t best_step = -1);

}  // namespace dml
