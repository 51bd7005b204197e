// The output directory of training runs: one run at a time writes into it, and a run that starts anew where an earlier
// one lies moves that one, whole, into OUTPUT/earlier-N. Nothing of an earlier run is overwritten or removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/file_lock.h"

namespace dml {

/// Held while a run writes into its output directory (rank 0). A run that dies, however, releases it.
class OutputLock {
 public:
  /// UserError naming the holder when another run holds it for longer than `patience` seconds: a killed run may still
  /// be exiting. The directory must exist.
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
/// Moves the run that lies in `output_dir`, its checkpoints, metrics and result, into earlier-N and says so: what it
/// was, its size and how to remove it. Other files stay. `inputs` (base model, adapter to start from) must not be among
/// what is moved: UserError.
void set_earlier_run_aside(const std::string& output_dir, const std::vector<std::string>& inputs);
/// Removes OUTPUT/earlier-N, or all of them when `name` is "earlier". UserError when there is none of that name.
void remove_earlier_runs(const std::string& output_dir, const std::string& name);

/// Bytes of all files in a folder.
std::uint64_t folder_bytes(const std::string& folder);

}  // namespace dml
