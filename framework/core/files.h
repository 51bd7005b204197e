// Files: bounded reading, read-only mapping, and writing that is never seen half done (temp, fsync, rename).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dml {

/// The whole of a regular file of at most `limit` bytes. UserError when it is missing, no regular file or too large.
std::string read_file(const std::string& path, std::size_t limit = std::size_t{1} << 30);

/// Like read_file(), without the byte order mark that some editors write.
std::string read_text_file(const std::string& path, std::size_t limit = std::size_t{1} << 30);

/// Read-only shared mapping of a regular file. Processes of one host that map the same file share its memory. If
/// the file is truncated while it is mapped, reading beyond its new end prints an error and ends the process with
/// ExitCode::io.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Drops those pages that lie in a MappedFile from this process's resident memory; they are read again from the file on
/// the next access. Other memory is left alone: it has no file to be read from.
void release_pages(std::span<const std::byte> mapped);

/// A file written from front to back under a temporary name in the same folder; commit() makes it appear.
/// Without commit() the file is removed. Every failure is an IoError with the path.
class FileWriter {
 public:
  /// The file is written in pieces of this size; a caller that always writes whole pieces avoids a copy.
  static constexpr std::size_t kPiece = 1 << 17;

  explicit FileWriter(std::string path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Overwrites bytes already written.
  void write_at(std::size_t offset, const void* data, std::size_t size);
  std::size_t position() const { return position_; }
  /// Flush, fsync, rename over the target, fsync of the folder.
  void commit();

 private:
  class WriteBack;
  void flush();
  void send(const char* data, std::size_t size);
  std::string path_, temporary_;
  int fd_ = -1;
  std::size_t position_ = 0, sent_ = 0;  // bytes passed to write(); bytes written to the system
  std::vector<char> buffer_;
  std::unique_ptr<WriteBack> write_back_;  // of a large file
};

/// Atomic replacement of a small file.
void write_file(const std::string& path, std::string_view text);

/// A folder that appears whole or not at all: fill path(), then commit(). Files inside are fsynced by commit().
class DirectoryWriter {
 public:
  /// `target` must not exist as a non-empty folder when commit() is called, unless `replace`.
  explicit DirectoryWriter(std::string target, bool replace = false);
  ~DirectoryWriter();
  DirectoryWriter(const DirectoryWriter&) = delete;
  DirectoryWriter& operator=(const DirectoryWriter&) = delete;

  const std::string& path() const { return temporary_; }
  /// fsync of everything, then in one step the name (an old folder is exchanged, so that a kill loses neither). False
  /// when another process put the same folder there first (only without `replace`).
  bool commit();

 private:
  std::string target_, temporary_;
  bool replace_, committed_ = false;
};

/// fsync of a file or folder by path.
void sync_path(const std::string& path);
void make_directories(const std::string& path);
bool file_exists(const std::string& path);
/// The system's error message for a path that cannot be opened ("Too many levels of symbolic links"); "" when it can.
std::string path_problem(const std::string& path);
/// Whether the path does not exist (as opposed to a loop of links or a folder without permission).
bool missing_path(const std::string& path);
/// The absolute path, with symbolic links and dots resolved as far as the path exists.
std::string real_path(const std::string& path);
/// Resident memory of this process now and at its highest, bytes (from /proc/self/status).
struct MemoryUse {
  std::size_t now = 0, peak = 0;
};
MemoryUse memory_use();

}  // namespace dml
