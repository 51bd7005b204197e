// Files: bounded reading, read-only mapping, and atomic writing (temporary file, fsync, rename).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.h"
#include "core/interruption.h"

namespace dml {

/// Reads a regular file of at most `limit` bytes. Throws UserError if it is missing, not a regular file, larger, or
/// only a pointer of Git LFS. IoError when the disk fails.
std::string read_file(const std::string& path, std::size_t limit = std::size_t{1} << 30);

/// Like read_file(), without the byte order mark that some editors write.
std::string read_text_file(const std::string& path, std::size_t limit = std::size_t{1} << 30);

/// A read-only shared mapping of a regular file, which is no pointer of Git LFS (UserError). Processes of one host that
/// map the same file share its memory. If the file is truncated while it is mapped, reading beyond its new end prints
/// an error and ends the process with ExitCode::io.
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

/// Drops pages of a MappedFile from the resident memory of this process; the next access reads them from the file
/// again. Memory outside of a MappedFile is not affected.
void release_pages(std::span<const std::byte> mapped);

/// A file written sequentially under a temporary name in the target's folder. commit() renames it to its target;
/// without commit() it is removed, after Ctrl-C as well (core/interruption.h). A target that is a symbolic link keeps
/// it: the file that it names is replaced. Devices, pipes and open files (/dev/stdout) are written directly. Every
/// failure throws IoError with the path.
class FileWriter {
 public:
  /// The bytes of one write() call, which begins at a multiple of this size. A piece fits into the second-level cache,
  /// and Linux allocates contiguous memory for it. Whole pieces are written without a copy.
  static constexpr std::size_t kPiece = 1 << 17;
  /// The same after the first 8 MB of a file: the size of a large page. File systems with large folios (ext4, XFS and
  /// Btrfs on recent Linux) cache the data of one write() call in one folio, so a process that maps the file gets large
  /// pages and reads it faster.
  static constexpr std::size_t kLargePiece = 2 << 20;

  explicit FileWriter(std::string path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Overwrites bytes already written; not of devices and pipes.
  void write_at(std::size_t offset, const void* data, std::size_t size);
  std::size_t position() const { return position_; }
  /// Flushes, calls fsync, renames the file over the target, and calls fsync on the folder.
  void commit();

 private:
  class WriteBack;
  std::size_t piece() const { return sent_ < 4 * kLargePiece ? kPiece : kLargePiece; }
  void flush();
  void send(const char* data, std::size_t size);
  std::string path_, target_, temporary_;  // as given; without links; empty if the target is written directly
  std::optional<UnfinishedOutput> unfinished_;
  Descriptor file_;
  std::size_t position_ = 0, sent_ = 0;  // bytes passed to write(); bytes passed to the system
  std::vector<char> buffer_;
  std::unique_ptr<WriteBack> write_back_;  // used for large files
};

/// What `path` names: its links are followed, also to a file that does not exist yet. Empty if the target must be
/// written directly, since a rename would put a file in its place: a device, a pipe, an open file of a process
/// (/dev/stdout is a link to /proc/self/fd/1).
std::string replaceable_target(const std::string& path);

/// Replaces a small file atomically.
void write_file(const std::string& path, std::string_view text);

/// A folder that appears complete or not at all: fill path(), then call commit().
class DirectoryWriter {
 public:
  /// When commit() is called, `target` must not be a non-empty folder, unless `replace` is set.
  explicit DirectoryWriter(std::string target, bool replace = false);
  ~DirectoryWriter();
  DirectoryWriter(const DirectoryWriter&) = delete;
  DirectoryWriter& operator=(const DirectoryWriter&) = delete;

  const std::string& path() const { return temporary_; }
  /// Calls fsync on everything, then renames atomically; an old folder is exchanged with the new one, so that a kill
  /// loses neither. Returns false if another process created the folder first (only without `replace`).
  bool commit();

 private:
  std::string target_, temporary_;
  UnfinishedOutput unfinished_;
  bool replace_, committed_ = false;
};

/// Calls fsync on a file or folder.
void sync_path(const std::string& path);
void make_directories(const std::string& path);
/// Makes the folders above `path`, for a file or folder whose place the user chose.
void make_parent_directories(const std::string& path);
bool file_exists(const std::string& path);
/// The name of a folder, also where its path ends in a slash.
std::string folder_name(const std::string& path);
/// "DIRECTORY/NAME".
std::string path_in(const std::string& directory, std::string_view name);
/// The system's error message for a path that cannot be opened ("Too many levels of symbolic links"); "" if it can be.
std::string path_problem(const std::string& path);
/// Whether the path does not exist (as opposed to a loop of links or a folder without permission).
bool missing_path(const std::string& path);
/// UserError when `output` is one of the inputs: the same file on the disk, by whatever name or link. `option`: what
/// named the output.
void require_not_an_input(std::string_view option, const std::string& output, const std::vector<std::string>& inputs);
/// The absolute path, with symbolic links and dots resolved as far as the path exists.
std::string real_path(const std::string& path);

}  // namespace dml
