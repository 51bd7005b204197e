// Cached folders, ROOT/DIGEST, named by the digest of their inputs. The first process that needs one builds it.
//
// Processes that need the same folder take its lock, ROOT/.DIGEST.lock: one builds the folder, the others wait for it.
// The system releases the lock of a killed process but leaves its files, ROOT/.DIGEST.lock and ROOT/.DIGEST.tmp-…; the
// next process that builds in the root or finds a folder there removes them.
#pragma once

#include <string>

#include "core/file_lock.h"

namespace dml {

class BuildLock {
 public:
  /// Waits for the lock. `root` must exist.
  BuildLock(std::string root, std::string digest);

  /// Removes temporary folders and lock files that killed processes left in the root.
  void remove_leftovers() const;

 private:
  std::string root_, digest_;
  FileLock lock_;  // without lock support in the file system, the atomic rename decides
};

/// For a process that holds no lock: removes temporary folders and lock files of all digests whose lock is free.
void remove_leftovers(const std::string& root);

}  // namespace dml
