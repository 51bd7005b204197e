// A file that grows by whole writes, for logs that may be read while they are written.
#pragma once

#include <string>
#include <string_view>

namespace dml {

class AppendedFile {
 public:
  /// Opens or makes `path`. IoError.
  explicit AppendedFile(std::string path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  const std::string& path() const { return path_; }
  /// IoError when not all of it could be written.
  void append(std::string_view bytes);
  /// Cuts off what lies after the first `size` bytes.
  void truncate(std::size_t size);
  /// Flushes to the disk.
  void sync();

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace dml
