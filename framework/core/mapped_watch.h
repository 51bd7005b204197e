// Detects changes of mapped files that must not change while they are in use, such as a base model during training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dml {

/// Identifies a file and its contents by device, inode, size and modification time.
struct FileStamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = -1, seconds = 0, nanoseconds = 0;  // size −1: no such file
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const std::string& path);

class MappedWatch {
 public:
  /// Records the files' stamps; the files should be mapped already.
  explicit MappedWatch(std::vector<std::string> paths);
  ~MappedWatch();
  MappedWatch(const MappedWatch&) = delete;
  MappedWatch& operator=(const MappedWatch&) = delete;

  enum class Kind {
    none,
    touched,   // another modification time, the same size: the contents may be the same
    changed,   // written to or truncated: the mapped contents have changed
    replaced,  // another file, or none, has the name; the mapping still shows the old file
  };
  struct Change {
    Kind kind = Kind::none;
    std::string path;
  };
  /// The most serious change since the files were recorded.
  Change change() const;
  /// Records the current stamps.
  void accept();

  /// From this call on, pages of these files that cannot be read (the file was truncated, or its disk fails) read as
  /// zeros instead of ending the process. Callers must check lost() before they use results.
  void tolerate_unreadable_pages();
  /// The first of these files with unreadable pages; "" if there is none.
  std::string lost() const;

 private:
  std::vector<std::string> paths_;
  std::vector<FileStamp> stamps_;
};

}  // namespace dml
