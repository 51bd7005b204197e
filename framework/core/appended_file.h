// A log file that is only appended to, each record in one write, so that other programs can read it while it grows.
#pragma once

#include <string>
#include <string_view>

#include "core/descriptor.h"

namespace dml {

class AppendedFile {
 public:
  /// Opens `path` for appending; creates it if it does not exist. IoError when that fails.
  explicit AppendedFile(std::string path);

  const std::string& path() const { return path_; }
  /// Writes all of `bytes` at the end of the file. IoError when the disk takes less.
  void append(std::string_view bytes);
  /// Truncates the file to its first `size` bytes.
  void truncate(std::size_t size);
  /// Flushes the file to the disk (fsync).
  void sync();

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace dml
