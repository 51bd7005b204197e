// The output directory of training runs. Only one run at a time writes to it. A new run moves an earlier run as a
// whole, and other files that it would replace, into OUTPUT/earlier-N; nothing there is overwritten or removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/file_lock.h"

namespace dml {

/// Held while a run writes to its output directory (rank 0). It is released however the process ends.
class OutputLock {
 public:
  /// UserError naming the owner when another run still holds it after `patience` seconds (a killed run may be exiting).
  /// The directory must exist.
  OutputLock(const std::string& output_dir, const std::string& owner, double patience = 5);

 private:
  static FileLock take(const std::string& output_dir, double patience);
  FileLock lock_;
};

struct EarlierRun {
  std::string name, path;  // "earlier-2", OUTPUT/earlier-2
  std::uint64_t bytes = 0;
  std::int64_t checkpoints = 0;
};

/// The folders of earlier runs, OUTPUT/earlier-N, oldest first.
std::vector<EarlierRun> earlier_runs(const std::string& output_dir);
/// Moves the run in `output_dir` (its checkpoints, metrics and result), or other files of the names that a run writes,
/// into earlier-N, and prints what it was, its size and how to remove it. All else stays. UserError when `inputs` (base
/// model, adapter to start from) are among the files to move.
void archive_earlier_run(const std::string& output_dir, const std::vector<std::string>& inputs);
/// Moves the valid checkpoints after `step`, which a run that goes back to `step` computes again, into earlier-N.
void archive_later_checkpoints(const std::string& output_dir, std::int64_t step);
/// Removes OUTPUT/earlier-N, or all of them if `name` is "earlier". UserError when there is none of that name.
void remove_earlier_runs(const std::string& output_dir, const std::string& name);

/// Bytes of all files in a folder.
std::uint64_t folder_bytes(const std::string& folder);

/// Whether a run writes a file or folder of this name as its record: metrics, recipe, report.
bool is_record_of_a_run(std::string_view name);

}  // namespace dml
