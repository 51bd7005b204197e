#include "core/built_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "core/error.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kDigest = 32;  // hex digits

std::string lock_path(const std::string& root, const std::string& digest) { return root + "/." + digest + ".lock"; }

int open_lock(const std::string& path) { return open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666); }

bool is_left_over(const std::string& name) {
  return name.size() > kDigest + 2 && name[0] == '.' && name.find(".tmp-") != std::string::npos &&
         name.find_first_not_of("0123456789abcdef", 1) == kDigest + 1;
}

}  // namespace

BuildLock::BuildLock(std::string root, std::string digest)
    : root_(std::move(root)), digest_(std::move(digest)), path_(lock_path(root_, digest_)) {
  while (true) {
    fd_ = open_lock(path_);
    if (fd_ < 0) throw IoError(path_, "cannot create");
    while (flock(fd_, LOCK_EX) != 0)
      if (errno != EINTR) {
        held_ = false;
        return;
      }
    struct stat mine, there;
    if (fstat(fd_, &mine) == 0 && stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino) break;
    close(fd_);  // its owner removed it while we waited
  }
}

BuildLock::~BuildLock() {
  if (held_) unlink(path_.c_str());
  close(fd_);
}

void BuildLock::remove_leftovers() const {
  if (!held_) return;
  std::vector<fs::path> found;
  std::error_code error;
  for (auto& entry : fs::directory_iterator(root_, error))
    if (is_left_over(entry.path().filename().string())) found.push_back(entry.path());
  for (auto& path : found) {
    std::string digest = path.filename().string().substr(1, kDigest), lock = lock_path(root_, digest);
    int fd = -1;
    if (digest != digest_) {
      fd = open_lock(lock);
      if (fd < 0) continue;
      if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        continue;
      }
    }
    fs::remove_all(path, error);
    if (fd >= 0) {
      unlink(lock.c_str());
      close(fd);
    }
  }
}

}  // namespace dml
