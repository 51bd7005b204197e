// Preloaded into the program: ends the process before the k-th system call that changes something in a folder, like a
// power failure at that point.
//
//   CUT_FOLDER=/path   which folder counts
//   CUT_AT=k           which call is the last one to come, from 1; unset: none is cut
//   CUT_COUNT=/file    the number of calls is written there in the end
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> calls{0};

bool inside(const char* path) {
  const char* folder = std::getenv("CUT_FOLDER");
  return folder && path && std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool inside(int fd) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = '\0';
  return inside(path);
}

template <class Where>
void count(Where where) {
  if (!inside(where)) return;
  const char* at = std::getenv("CUT_AT");
  if (++calls == (at ? std::atol(at) : -1)) _exit(137);
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

struct Report {
  ~Report() {
    const char* path = std::getenv("CUT_COUNT");
    std::FILE* file = path ? std::fopen(path, "w") : nullptr;
    if (!file) return;
    std::fprintf(file, "%ld", calls.load());
    std::fclose(file);
  }
} report;

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  count(fd);
  return real<ssize_t(int, const void*, size_t)>("write")(fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  count(fd);
  return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  count(fd);
  return real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(fd, data, size, at);
}
int fsync(int fd) {
  count(fd);
  return real<int(int)>("fsync")(fd);
}
int ftruncate(int fd, off_t size) noexcept {
  count(fd);
  return real<int(int, off_t)>("ftruncate")(fd, size);
}
int rename(const char* from, const char* to) noexcept {
  count(to);
  return real<int(const char*, const char*)>("rename")(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  count(to);
  return real<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder, to, flags);
}
int mkdir(const char* path, mode_t mode) noexcept {
  count(path);
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}
int unlink(const char* path) noexcept {
  count(path);
  return real<int(const char*)>("unlink")(path);
}
int unlinkat(int folder, const char* name, int flags) noexcept {
  if (folder == AT_FDCWD) count(name);
  else count(folder);
  return real<int(int, const char*, int)>("unlinkat")(folder, name, flags);
}

}  // extern "C"
