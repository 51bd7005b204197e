#include "core/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/error.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBuffer = 1 << 20;

std::string temporary_name(const std::string& target) {
  static std::atomic<unsigned> serial{0};
  fs::path p(target);
  return (p.parent_path() / fmt::format(".{}.tmp-{}-{}", p.filename().string(), getpid(), serial++)).string();
}

// Opens a regular file; refuses folders, pipes and devices, which could block or never end.
int open_regular(const std::string& path, std::size_t& size) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) throw UserError("{}: no such file", path);
    throw UserError("{}: cannot be opened: {}", path, std::strerror(errno));
  }
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    throw UserError("{}: is {}, not a file", path, S_ISDIR(info.st_mode) ? "a folder" : "a pipe or device");
  }
  size = static_cast<std::size_t>(info.st_size);
  return fd;
}

void write_all(int fd, const char* data, std::size_t size, const std::string& path) {
  while (size > 0) {
    ssize_t n = ::write(fd, data, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      throw IoError(path, "cannot write");
    }
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

}  // namespace

std::string read_file(const std::string& path, std::size_t limit) {
  std::size_t size = 0;
  int fd = open_regular(path, size);
  if (size > limit) {
    close(fd);
    throw UserError("{}: {} bytes, the limit is {}", path, size, limit);
  }
  std::string out(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    ssize_t n = ::read(fd, out.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  close(fd);
  if (done != size) throw UserError("{}: ends early ({} of {} bytes could be read)", path, done, size);
  return out;
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  int fd = open_regular(path, size_);
  if (size_ > 0) {
    void* p = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
      int error = errno;
      close(fd);
      throw UserError("{}: cannot be mapped: {}", path, std::strerror(error));
    }
    data_ = static_cast<const std::byte*>(p);
  }
  close(fd);
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

FileWriter::FileWriter(std::string path) : path_(std::move(path)), temporary_(temporary_name(path_)) {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0) throw IoError(path_, "cannot create");
  buffer_.reserve(kBuffer);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) {
    close(fd_);
    unlink(temporary_.c_str());
  }
}

void FileWriter::flush() {
  write_all(fd_, buffer_.data(), buffer_.size(), path_);
  buffer_.clear();
}

void FileWriter::write(const void* data, std::size_t size) {
  auto* p = static_cast<const char*>(data);
  position_ += size;
  if (buffer_.size() + size > kBuffer) flush();
  if (size >= kBuffer)
    write_all(fd_, p, size, path_);
  else
    buffer_.insert(buffer_.end(), p, p + size);
}

void FileWriter::write_at(std::size_t offset, const void* data, std::size_t size) {
  DML_CHECK(offset + size <= position_);
  flush();
  auto* p = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = pwrite(fd_, p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(path_, "cannot write");
    p += n;
    offset += static_cast<std::size_t>(n);
    size -= static_cast<std::size_t>(n);
  }
}

void FileWriter::commit() {
  flush();
  if (fsync(fd_) != 0) throw IoError(path_, "cannot write to disk");
  int fd = std::exchange(fd_, -1);
  if (close(fd) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) {
    IoError error(path_, "cannot finish writing");
    unlink(temporary_.c_str());
    throw error;
  }
  auto folder = fs::path(path_).parent_path().string();
  sync_path(folder.empty() ? "." : folder);
}

void write_file(const std::string& path, std::string_view text) {
  FileWriter out(path);
  out.write(text);
  out.commit();
}

DirectoryWriter::DirectoryWriter(std::string target, bool replace) : target_(std::move(target)), replace_(replace) {
  while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
  temporary_ = temporary_name(target_);
  if (auto parent = fs::path(target_).parent_path(); !parent.empty()) make_directories(parent.string());
  if (mkdir(temporary_.c_str(), 0777) != 0) throw IoError(target_, "cannot create folder");
}

DirectoryWriter::~DirectoryWriter() {
  if (!committed_) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
}

bool DirectoryWriter::commit() {
  for (auto& entry : fs::recursive_directory_iterator(temporary_))
    if (entry.is_regular_file() || entry.is_directory()) sync_path(entry.path().string());
  sync_path(temporary_);
  std::string old;
  if (replace_ && file_exists(target_)) {
    old = temporary_name(target_ + ".old");
    if (rename(target_.c_str(), old.c_str()) != 0) throw IoError(target_, "cannot replace");
  }
  if (rename(temporary_.c_str(), target_.c_str()) != 0) {
    if ((errno == ENOTEMPTY || errno == EEXIST) && !replace_) return false;  // the destructor removes our copy
    IoError error(target_, "cannot rename into place");
    if (!old.empty()) rename(old.c_str(), target_.c_str());
    throw error;
  }
  committed_ = true;
  auto parent = fs::path(target_).parent_path().string();
  sync_path(parent.empty() ? "." : parent);
  if (!old.empty()) {
    std::error_code ignored;
    fs::remove_all(old, ignored);
  }
  return true;
}

void sync_path(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw IoError(path, "cannot open");
  int result = fsync(fd);
  int error = errno;
  close(fd);
  errno = error;
  if (result != 0 && error != EINVAL) throw IoError(path, "cannot write to disk");
}

void make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error(ExitCode::io, fmt::format("{}: cannot create folder: {}", path, error.message()));
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string real_path(const std::string& path) {
  std::error_code error;
  auto p = fs::weakly_canonical(path, error);
  return error ? path : p.string();
}

MemoryUse memory_use() {
  MemoryUse use;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::size_t kb = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %zu", &kb) == 1) use.peak = kb * 1024;
    if (std::sscanf(line.c_str(), "VmRSS: %zu", &kb) == 1) use.now = kb * 1024;
  }
  return use;
}

}  // namespace dml
