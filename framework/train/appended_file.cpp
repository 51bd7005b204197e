#include "train/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/error.h"

namespace dml {

AppendedFile::AppendedFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) throw IoError(path_, "cannot open for writing");
}

AppendedFile::~AppendedFile() { ::close(fd_); }

void AppendedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(path_, "cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void AppendedFile::truncate(std::size_t size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) throw IoError(path_, "cannot truncate");
}

void AppendedFile::sync() {
  if (::fsync(fd_) != 0) throw IoError(path_, "cannot flush to disk");
}

}  // namespace dml
