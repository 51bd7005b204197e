// An open file descriptor, closed by its owner, and calls that read or write all that they are given.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace dml {

class Descriptor {
 public:
  /// Owns `fd`; a negative one is none.
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  /// Closes it and says whether that succeeded: a file system may report a failed write only now.
  bool close() { return ::close(release()) == 0; }

 private:
  int fd_;
};

/// Writes all bytes. IoError naming `path`.
void write_all(int fd, const void* data, std::size_t size, const std::string& path);
/// Writes all bytes at an offset. IoError naming `path`.
void write_all_at(int fd, const void* data, std::size_t size, std::uint64_t offset, const std::string& path);
/// Reads up to `size` bytes at an offset; fewer only at the end of the file. IoError naming `path`.
std::size_t read_at(int fd, void* data, std::size_t size, std::uint64_t offset, const std::string& path);

}  // namespace dml
