#include "core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/error.h"

namespace dml {
namespace {

int open_lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) throw IoError(path, "cannot create");
  return fd;
}

// Tries to lock `fd`; returns 0 or the error number, EWOULDBLOCK if another process holds the lock.
int lock_error(int fd, int operation) {
  while (flock(fd, operation) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

// Whether `path` is still the file of `fd`. The owner removes the file before it releases the lock, so a process that
// waited may hold the lock of a removed file.
bool is_still_there(int fd, const std::string& path) {
  struct stat mine, there;
  return fstat(fd, &mine) == 0 && stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino;
}

}  // namespace

FileLock FileLock::wait_for(const std::string& path) {
  while (true) {
    const int fd = open_lock(path);
    const bool held = lock_error(fd, LOCK_EX) == 0;
    if (!held || is_still_there(fd, path)) return {path, fd, held};
    close(fd);
  }
}

std::optional<FileLock> FileLock::try_for(const std::string& path) {
  while (true) {
    const int fd = open_lock(path), error = lock_error(fd, LOCK_EX | LOCK_NB);
    if (error != 0 && error != EWOULDBLOCK) return FileLock(path, fd, false);
    if (error == 0 && is_still_there(fd, path)) return FileLock(path, fd, true);
    close(fd);
    if (error != 0) return std::nullopt;
  }
}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), held_(other.held_) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(held_, other.held_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  if (held_) unlink(path_.c_str());
  close(fd_);
}

void FileLock::describe(std::string_view owner) const {
  // The text is only used in messages, so errors are ignored.
  if (ftruncate(fd_, 0) == 0 && pwrite(fd_, owner.data(), owner.size(), 0) < 0) return;
}

}  // namespace dml
