#include "core/built_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kDigest = 32;  // hex digits

std::string lock_path(const std::string& root, const std::string& digest) { return root + "/." + digest + ".lock"; }

int open_lock(const std::string& path) { return open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666); }

// Takes the lock that `fd` is open on. False when it cannot: another holds it (LOCK_NB), or no such thing here.
bool take(int fd, int operation) {
  while (flock(fd, operation) != 0)
    if (errno != EINTR) return false;
  return true;
}

// An owner removes the file before it lets go: who waited for that has the lock of nothing.
bool is_still_there(int fd, const std::string& path) {
  struct stat mine, there;
  return fstat(fd, &mine) == 0 && stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino;
}

// The digest in .DIGEST.lock or .DIGEST.tmp-…; "" for any other name.
std::string digest_of_leftover(const std::string& name) {
  if (name[0] != '.' || name.find_first_not_of("0123456789abcdef", 1) != kDigest + 1) return "";
  std::string_view rest = std::string_view(name).substr(kDigest + 1);
  return rest == ".lock" || rest.starts_with(".tmp-") ? name.substr(1, kDigest) : "";
}

void remove_unheld(const std::string& root, const std::string& held) {
  std::map<std::string, std::vector<fs::path>> found;  // temporary folders by digest
  std::error_code error;
  for (auto& entry : fs::directory_iterator(root, error)) {
    const fs::path& path = entry.path();
    std::string digest = digest_of_leftover(path.filename().string());
    if (digest.empty()) continue;
    auto& folders = found[digest];
    if (path.extension() != ".lock") folders.push_back(path);
  }
  for (auto& [digest, folders] : found) {
    const std::string lock = lock_path(root, digest);
    int fd = -1;
    if (digest != held) {
      fd = open_lock(lock);
      if (fd < 0) continue;
      if (!take(fd, LOCK_EX | LOCK_NB) || !is_still_there(fd, lock)) {
        close(fd);
        continue;
      }
    }
    for (auto& folder : folders) fs::remove_all(folder, error);
    if (fd >= 0) {
      unlink(lock.c_str());
      close(fd);
    }
  }
}

}  // namespace

BuildLock::BuildLock(std::string root, std::string digest)
    : root_(std::move(root)), digest_(std::move(digest)), path_(lock_path(root_, digest_)) {
  while (true) {
    fd_ = open_lock(path_);
    if (fd_ < 0) throw IoError(path_, "cannot create");
    held_ = take(fd_, LOCK_EX);
    if (!held_ || is_still_there(fd_, path_)) return;
    close(fd_);
  }
}

BuildLock::~BuildLock() {
  if (held_) unlink(path_.c_str());
  close(fd_);
}

void BuildLock::remove_leftovers() const {
  if (held_) remove_unheld(root_, digest_);
}

void remove_leftovers(const std::string& root) { remove_unheld(root, ""); }

}  // namespace dml
