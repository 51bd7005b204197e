// Reading: a whole file into memory, or mapped.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/files.h"
#include "core/mapped_watch.h"

namespace dml {
namespace {

// A clone of a repository without `git lfs pull` has small text files in place of its large files.
bool is_lfs_pointer(int file, std::size_t size) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/v1";
  constexpr std::size_t kMaxPointer = 1024;
  if (size < kBegin.size() || size > kMaxPointer) return false;
  char begin[kBegin.size()];
  return pread(file, begin, sizeof begin, 0) == std::ssize(kBegin) && std::string_view(begin, sizeof begin) == kBegin;
}

// Opens a regular file; throws UserError for folders, for pipes and devices, which could block or never end, and for
// pointers of Git LFS.
Descriptor open_regular(const std::string& path, std::size_t& size) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    if (errno == ENOENT) throw UserError("{}: no such file", path);
    throw UserError("{}: cannot be opened: {}", path, std::strerror(errno));
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    throw UserError("{}: is {}, not a file", path, S_ISDIR(info.st_mode) ? "a folder" : "a pipe or device");
  size = static_cast<std::size_t>(info.st_size);
  if (is_lfs_pointer(file.get(), size))
    throw UserError("{}: this is a Git LFS pointer, not the file; run `git lfs pull` in the folder", path);
  return file;
}

// Reading a mapped file that was truncated, or whose disk fails, raises SIGBUS. If a MappedWatch tolerates it, the
// handler maps zeros over the rest of the file, records the loss and lets the thread continue; otherwise it names the
// file and ends the process with ExitCode::io. A signal handler may use only this table of plain bytes and system
// calls.
struct Mapping {
  std::atomic<const std::byte*> first{nullptr};
  std::atomic<std::size_t> size{0};
  std::atomic<bool> survives{false}, lost{false};  // MappedWatch
  char path[200];
};
std::array<Mapping, 256> mappings;  // further files are mapped, too, but the handler cannot name them
std::mutex mappings_mutex;
struct sigaction bus_before;

void on_bus_error(int number, siginfo_t* info, void*) {
  auto* at = static_cast<const std::byte*>(info->si_addr);
  for (Mapping& m : mappings) {
    const std::byte* first = m.first;
    if (!first || at < first || at >= first + m.size) continue;
    if (m.survives) {
      const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
      auto* begin = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(at) / page * page);
      m.lost = true;
      if (mmap(begin, static_cast<std::size_t>(first + m.size - begin), PROT_READ,
               MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED)
        return;
    }
    constexpr char kText[] = ": was cut short while it was in use, or its disk failed\n";
    ssize_t said = ::write(STDERR_FILENO, m.path, std::strlen(m.path));
    said = ::write(STDERR_FILENO, kText, sizeof kText - 1);
    _exit(said < 0 ? EXIT_FAILURE : static_cast<int>(ExitCode::io));
  }
  sigaction(number, &bus_before,
            nullptr);  // not one of these mappings: restore the default handler and let the fault repeat
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
    m.survives = m.lost = false;
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

bool in_mapped_file(std::span<const std::byte> bytes) {
  std::lock_guard lock(mappings_mutex);
  return std::ranges::any_of(mappings, [&](const Mapping& m) {
    const std::byte* first = m.first;
    return first && bytes.data() >= first && bytes.data() + bytes.size() <= first + m.size;
  });
}

template <class F>
void for_mappings_of(const std::vector<std::string>& paths, F&& each) {
  std::lock_guard lock(mappings_mutex);
  for (Mapping& m : mappings)
    if (m.first)
      for (const std::string& path : paths)
        if (path.compare(0, sizeof m.path - 1, m.path) == 0) each(m);
}

}  // namespace

FileStamp stamp_of(const std::string& path) {
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return {};
  return {s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
}

MappedWatch::MappedWatch(std::vector<std::string> paths) : paths_(std::move(paths)) { accept(); }

MappedWatch::~MappedWatch() {
  for_mappings_of(paths_, [](Mapping& m) { m.survives = false; });
}

void MappedWatch::accept() {
  stamps_.clear();
  for (const std::string& path : paths_) stamps_.push_back(stamp_of(path));
}

MappedWatch::Change MappedWatch::change() const {
  Change worst;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const FileStamp now = stamp_of(paths_[i]), &then = stamps_[i];
    if (now == then) continue;
    const bool same_file = now.size >= 0 && now.device == then.device && now.inode == then.inode;
    const Kind kind = !same_file ? Kind::replaced : now.size == then.size ? Kind::touched : Kind::changed;
    // A change of the mapped contents is more serious than a change of the name.
    auto rank = [](Kind k) { return k == Kind::changed ? 3 : k == Kind::touched ? 2 : k == Kind::replaced ? 1 : 0; };
    if (rank(kind) > rank(worst.kind)) worst = {kind, paths_[i]};
  }
  return worst;
}

void MappedWatch::tolerate_unreadable_pages() {
  for_mappings_of(paths_, [](Mapping& m) { m.survives = true; });
}

std::string MappedWatch::lost() const {
  std::string path;
  for_mappings_of(paths_, [&](Mapping& m) {
    if (m.lost && path.empty()) path = m.path;
  });
  return path;
}

std::string read_file(const std::string& path, std::size_t limit) {
  std::size_t size = 0;
  const Descriptor file = open_regular(path, size);
  if (size > limit) throw UserError("{}: {} bytes, the limit is {}", path, size, limit);
  std::string out(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    ssize_t n = ::read(file.get(), out.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw IoError(path, "cannot be read");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (done != size) throw UserError("{}: ends early ({} of {} bytes could be read)", path, done, size);
  return out;
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  watch_bus_errors();
  const Descriptor file = open_regular(path, size_);
  if (size_ == 0) return;
  void* p = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (p == MAP_FAILED)  // the file is fine, but memory or the number of mappings is exhausted
    throw Error(errno == ENOMEM ? ExitCode::memory : ExitCode::user,
                fmt::format("{}: cannot be mapped: {}", path, std::strerror(errno)));
  data_ = static_cast<const std::byte*>(p);
  remember(data_, size_, path);
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
  if (!in_mapped_file(mapped)) return;
  auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto first = reinterpret_cast<std::uintptr_t>(mapped.data()), last = first + mapped.size();
  first = (first + page - 1) / page * page;
  last = last / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace dml
