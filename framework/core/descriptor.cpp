#include "core/descriptor.h"

#include <cerrno>

#include "core/error.h"

namespace dml {

void write_all(int fd, const void* data, std::size_t size, const std::string& path) {
  for (const auto* p = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = ::write(fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(path, "cannot write");
    p += n, size -= static_cast<std::size_t>(n);
  }
}

void write_all_at(int fd, const void* data, std::size_t size, std::uint64_t offset, const std::string& path) {
  for (const auto* p = static_cast<const char*>(data); size > 0;) {
    const ssize_t n = ::pwrite(fd, p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(path, "cannot write");
    p += n, offset += static_cast<std::uint64_t>(n), size -= static_cast<std::size_t>(n);
  }
}

std::size_t read_at(int fd, void* data, std::size_t size, std::uint64_t offset, const std::string& path) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd, static_cast<char*>(data) + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(path, "cannot be read back");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

}  // namespace dml
