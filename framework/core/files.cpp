#include "core/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "core/affinity.h"
#include "core/error.h"
#include "core/left_over.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

// Exchanges the folders `fresh` and `target`; afterwards `fresh` is the name of the old folder. The exchange is atomic,
// so `target` is complete at every moment; on file systems without it (NFS) it takes two renames.
void replace_folder(std::string& fresh, const std::string& target) {
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) throw IoError(target, "cannot replace");
  std::string old = temporary_name(target + ".old");
  if (rename(target.c_str(), old.c_str()) != 0) throw IoError(target, "cannot replace");
  if (rename(fresh.c_str(), target.c_str()) != 0) {
    IoError error(target, "cannot rename into place");
    rename(old.c_str(), target.c_str());
    throw error;
  }
  fresh.swap(old);
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

// Opens a folder; -1 if it cannot be opened.
int folder_at(int parent, const char* name) {
  return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Calls entry(descriptor, name) for every entry of an open folder and closes it. Returns false with errno if it cannot
// be read. (std::filesystem's iterators are noexcept in libstdc++ and terminate when an allocation fails.)
template <class F>
bool each_entry(int descriptor, F entry) {
  if (descriptor < 0) return false;
  Folder folder(fdopendir(descriptor));
  if (!folder) {
    const int error = errno;
    close(descriptor);
    errno = error;
    return false;
  }
  for (;;) {
    errno = 0;
    const dirent* found = readdir(folder.get());
    if (!found) return errno == 0;
    const std::string_view name = found->d_name;
    if (name != "." && name != "..") entry(dirfd(folder.get()), found->d_name);
  }
}

// Removes a folder with its contents. Allocates nothing, so it works when memory is exhausted; ignores errors.
void remove_tree(int parent, const char* name) noexcept {
  if (unlinkat(parent, name, 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
  each_entry(folder_at(parent, name), [](int folder, const char* entry) { remove_tree(folder, entry); });
  unlinkat(parent, name, AT_REMOVEDIR);
}

// Calls fsync on a folder and everything in it.
void sync_tree(int parent, const char* name, const std::string& path) {
  const bool read = each_entry(folder_at(parent, name), [&](int folder, const char* entry) {
    const std::string inside = path + "/" + entry;
    struct stat status {};
    if (fstatat(folder, entry, &status, AT_SYMLINK_NOFOLLOW) != 0) throw IoError(inside, "cannot be read back");
    if (S_ISDIR(status.st_mode)) sync_tree(folder, entry, inside);
    else if (S_ISREG(status.st_mode)) sync_path(inside);
  });
  if (!read) throw IoError(path, "cannot be read back");
  sync_path(path);
}

}  // namespace

// Starts writing a large file to disk while the rest of it is still produced, so that commit() waits less. It runs in
// its own thread, since the request blocks while the disk is busy.
class FileWriter::WriteBack {
 public:
  static constexpr std::size_t kStart = std::size_t{8} << 20;

  explicit WriteBack(int fd) : fd_(fd), thread_([this](std::stop_token stop) { run(stop); }) {}
  // Wakes the thread only for enough bytes, since on a busy machine it takes a core from another thread.
  void reached(std::size_t size) {
    {
      std::lock_guard lock(mutex_);
      if (size - size_ < kStart) return;
      size_ = size;
    }
    wake_.notify_one();
  }

 private:
  void run(const std::stop_token& stop) {
    unbind_this_thread();
    for (std::size_t begun = 0;;) {
      std::size_t size = 0;
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait(lock, stop, [&] { return size_ > begun; })) return;
        size = size_;
      }
      sync_file_range(fd_, static_cast<off_t>(begun), static_cast<off_t>(size - begun), SYNC_FILE_RANGE_WRITE);
      begun = size;
    }
  }

  int fd_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::size_t size_ = 0;
  std::jthread thread_;  // declared last, since it uses the other members
};

FileWriter::FileWriter(std::string path) : path_(std::move(path)), target_(replaceable_target(path_)) {
  buffer_.reserve(kPiece);
  if (target_.empty()) {
    file_.reset(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  } else {
    unfinished_.emplace();
    temporary_ = temporary_name(target_);
    file_.reset(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  }
  if (!file_) throw IoError(path_, "cannot create");
}

FileWriter::~FileWriter() {
  write_back_.reset();
  if (file_ && !temporary_.empty()) unlink(temporary_.c_str());
}

void FileWriter::send(const char* data, std::size_t size) {
  write_all(file_.get(), data, size, path_);
  sent_ += size;
  if (sent_ < WriteBack::kStart) return;
  try {
    if (!write_back_) write_back_ = std::make_unique<WriteBack>(file_.get());
  } catch (const std::system_error&) {
    return;  // no thread could be created; commit() then waits for the whole file
  }
  write_back_->reached(sent_);
}

void FileWriter::flush() {
  send(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void FileWriter::write(const void* data, std::size_t size) {
  check_interruption();
  auto* p = static_cast<const char*>(data);
  while (size > 0) {
    const std::size_t piece = this->piece();
    const std::size_t room = piece - position_ % piece;  // bytes left in the piece
    const bool whole = room == piece && size >= piece;   // written directly, without a copy
    const std::size_t n = whole ? piece : std::min(size, room);
    if (whole) {
      send(p, n);
    } else {
      buffer_.reserve(piece);
      buffer_.insert(buffer_.end(), p, p + n);
    }
    position_ += n;
    if (n == room) flush();
    p += n;
    size -= n;
  }
}

void FileWriter::write_at(std::size_t offset, const void* data, std::size_t size) {
  DML_CHECK(offset + size <= position_ && !temporary_.empty());
  flush();
  write_all_at(file_.get(), data, size, offset, path_);
}

void FileWriter::commit() {
  check_interruption();
  flush();
  write_back_.reset();
  if (fsync(file_.get()) != 0 && (errno != EINVAL || !temporary_.empty())) throw IoError(path_, "cannot write to disk");
  if (!file_.close() || (!temporary_.empty() && rename(temporary_.c_str(), target_.c_str()) != 0)) {
    IoError error(path_, "cannot finish writing");
    if (!temporary_.empty()) unlink(temporary_.c_str());
    throw error;
  }
  if (temporary_.empty()) return;
  auto folder = fs::path(target_).parent_path().string();
  sync_path(folder.empty() ? "." : folder);
}

std::string replaceable_target(const std::string& path) {
  constexpr int kMaxLinks = 40;
  fs::path at(path);
  std::error_code error;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(at, error); ++i) {
    if (fs::weakly_canonical(at.parent_path(), error).string().starts_with("/proc/")) return "";
    at = at.parent_path() / fs::read_symlink(at, error);  // an absolute link replaces the path
  }
  struct stat found {};
  const bool exists = stat(at.c_str(), &found) == 0;
  return exists && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode) ? "" : at.string();
}

void write_file(const std::string& path, std::string_view text) {
  FileWriter out(path);
  out.write(text);
  out.commit();
}

DirectoryWriter::DirectoryWriter(std::string target, bool replace) : target_(std::move(target)), replace_(replace) {
  while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
  temporary_ = temporary_name(target_);
  make_parent_directories(target_);
  if (mkdir(temporary_.c_str(), 0777) != 0) throw IoError(target_, "cannot create folder");
}

DirectoryWriter::~DirectoryWriter() {
  if (!committed_) remove_tree(AT_FDCWD, temporary_.c_str());
}

bool DirectoryWriter::commit() {
  check_interruption();
  sync_tree(AT_FDCWD, temporary_.c_str(), temporary_);
  // All allocations come before the rename: after it the folder is committed.
  const fs::path folder = fs::path(target_).parent_path();
  const std::string parent = folder.empty() ? std::string(".") : folder.string();
  if (replace_ && file_exists(target_)) {
    replace_folder(temporary_, target_);
  } else if (rename(temporary_.c_str(), target_.c_str()) != 0) {
    if ((errno == ENOTEMPTY || errno == EEXIST) && !replace_)
      return false;  // the destructor removes the temporary folder
    throw IoError(target_, "cannot rename into place");
  }
  committed_ = true;
  sync_path(parent);
  if (replace_) remove_tree(AT_FDCWD, temporary_.c_str());
  return true;
}

void sync_path(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw IoError(path, "cannot open");
  if (fsync(file.get()) != 0 && errno != EINVAL) throw IoError(path, "cannot write to disk");
}

void make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error(ExitCode::io, fmt::format("{}: cannot create folder: {}", path, error.message()));
}

void make_parent_directories(const std::string& path) {
  if (const fs::path parent = fs::path(path).parent_path(); !parent.empty()) make_directories(parent.string());
}

std::string read_text_file(const std::string& path, std::size_t limit) {
  std::string text = read_file(path, limit);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string path_problem(const std::string& path) {
  struct stat found;
  return stat(path.c_str(), &found) == 0 ? "" : std::strerror(errno);
}

bool missing_path(const std::string& path) {
  struct stat found;
  return stat(path.c_str(), &found) != 0 && errno == ENOENT;
}

void require_not_an_input(std::string_view option, const std::string& output, const std::vector<std::string>& inputs) {
  struct stat written, read;
  if (stat(output.c_str(), &written) != 0 || !S_ISREG(written.st_mode)) return;
  for (const std::string& input : inputs)
    if (stat(input.c_str(), &read) == 0 && read.st_dev == written.st_dev && read.st_ino == written.st_ino)
      throw UserError("{}: {} is an input; choose another file", option, output);
}

std::string folder_name(const std::string& path) {
  return fs::path(path + "/").lexically_normal().parent_path().filename().string();
}

std::string path_in(const std::string& directory, std::string_view name) {
  return (fs::path(directory) / name).string();
}

std::string real_path(const std::string& path) {
  std::error_code error;
  auto p = fs::weakly_canonical(path, error);
  return error ? path : p.string();
}

}  // namespace dml
