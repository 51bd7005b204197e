// A lock between processes, held on a file. The system releases it when its owner dies for any reason; a file that a
// killed owner leaves behind does not lock. It works across hosts if the file system supports locks (NFS since version
// 4, Lustre …).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/descriptor.h"

namespace dml {

class FileLock {
 public:
  /// Takes the lock; waits while another process holds it. Throws IoError if the file cannot be created.
  static FileLock wait_for(const std::string& path);
  /// Takes the lock if it is free; unset if another process holds it.
  static std::optional<FileLock> try_for(const std::string& path);

  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&& other) noexcept;
  /// Removes the file and releases the lock.
  ~FileLock();

  /// False on a file system without locks, where processes are not excluded.
  bool held() const { return held_; }
  /// Writes a description of the owner into the file, for messages of waiting processes.
  void describe(std::string_view owner) const;

 private:
  FileLock(std::string path, Descriptor file, bool held)
      : path_(std::move(path)), file_(std::move(file)), held_(held) {}
  std::string path_;
  Descriptor file_;
  bool held_;
};

}  // namespace dml
