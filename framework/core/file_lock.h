// A lock between processes, as a file. The system releases it when its owner dies, however that happens; the file that
// a killed owner leaves behind is no lock. Also across hosts where the file system has locks (NFS since version 4,
// Lustre …).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dml {

class FileLock {
 public:
  /// Waits until no other process holds it. IoError when the file cannot be created.
  static FileLock wait_for(const std::string& path);
  /// Unset when another process holds it.
  static std::optional<FileLock> try_for(const std::string& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  /// Removes the file and releases the lock.
  ~FileLock();

  /// False on a file system without locks, where no process is excluded.
  bool held() const { return held_; }
  /// Writes who holds it into the file, for others to read.
  void describe(std::string_view owner) const;

 private:
  FileLock(std::string path, int fd, bool held) : path_(std::move(path)), fd_(fd), held_(held) {}
  std::string path_;
  int fd_;
  bool held_;
};

}  // namespace dml
