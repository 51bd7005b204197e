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

Descriptor open_lock(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) throw IoError(path, "cannot create");
  return file;
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
    Descriptor file = open_lock(path);
    const bool held = lock_error(file.get(), LOCK_EX) == 0;
    if (!held || is_still_there(file.get(), path)) return {path, std::move(file), held};
  }
}

std::optional<FileLock> FileLock::try_for(const std::string& path) {
  while (true) {
    Descriptor file = open_lock(path);
    const int error = lock_error(file.get(), LOCK_EX | LOCK_NB);
    if (error == EWOULDBLOCK) return std::nullopt;
    if (error != 0) return FileLock(path, std::move(file), false);
    if (is_still_there(file.get(), path)) return FileLock(path, std::move(file), true);
  }
}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(held_, other.held_);
  return *this;
}

FileLock::~FileLock() {
  if (file_ && held_) unlink(path_.c_str());
}

void FileLock::describe(std::string_view owner) const {
  // The text is only used in messages, so errors are ignored.
  if (ftruncate(file_.get(), 0) == 0 && pwrite(file_.get(), owner.data(), owner.size(), 0) < 0) return;
}

}  // namespace dml
