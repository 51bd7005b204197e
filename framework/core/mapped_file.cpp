// Reading: a whole file into memory, or mapped.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/files.h"

namespace dml {
namespace {

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

// A mapped file that somebody cuts short, or whose disk fails, answers a read with SIGBUS. The handler cannot undo
// that; it names the file and ends the process with the code of an I/O error. A table of plain bytes is all that it may
// look at.
struct Mapping {
  std::atomic<const std::byte*> first{nullptr};
  std::atomic<std::size_t> size{0};
  char path[200];
};
std::array<Mapping, 256> mappings;  // a file that finds no place in it is mapped all the same, only not named
std::mutex mappings_mutex;
struct sigaction bus_before;

void on_bus_error(int number, siginfo_t* info, void*) {
  auto* at = static_cast<const std::byte*>(info->si_addr);
  for (const Mapping& m : mappings) {
    const std::byte* first = m.first;
    if (!first || at < first || at >= first + m.size) continue;
    constexpr char kText[] = ": was cut short while it was in use, or its disk failed\n";
    ssize_t said = ::write(STDERR_FILENO, m.path, std::strlen(m.path));
    said = ::write(STDERR_FILENO, kText, sizeof kText - 1);
    _exit(said < 0 ? EXIT_FAILURE : static_cast<int>(ExitCode::io));
  }
  sigaction(number, &bus_before, nullptr);  // not ours: it happens again, to whoever was here before
}

void watch_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, &bus_before);
  });
}

void remember(const std::byte* data, std::size_t size, const std::string& path) {
  std::lock_guard lock(mappings_mutex);
  for (Mapping& m : mappings) {
    if (m.first) continue;
    m.path[path.copy(m.path, sizeof m.path - 1)] = 0;
    m.size = size;
    m.first = data;
    return;
  }
}

void forget(const std::byte* data) {
  std::lock_guard lock(mappings_mutex);
  for (Mapping& m : mappings)
    if (m.first == data) m.first = nullptr;
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
  watch_bus_errors();
  int fd = open_regular(path, size_);
  if (size_ > 0) {
    void* p = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
      int error = errno;
      close(fd);
      // The file is as good as before: there is no room for it, or no more mappings may be had.
      throw Error(error == ENOMEM ? ExitCode::memory : ExitCode::user,
                  fmt::format("{}: cannot be mapped: {}", path, std::strerror(error)));
    }
    data_ = static_cast<const std::byte*>(p);
    remember(data_, size_, path);
  }
  close(fd);
}

MappedFile::~MappedFile() {
  if (!data_) return;
  forget(data_);
  munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void release_pages(std::span<const std::byte> mapped) {
  auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto first = reinterpret_cast<std::uintptr_t>(mapped.data()), last = first + mapped.size();
  first = (first + page - 1) / page * page;
  last = last / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace dml
