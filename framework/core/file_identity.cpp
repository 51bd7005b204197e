#include "core/file_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace dml {

std::string file_identity(const std::string& path) {
  struct stat s;
  if (stat(path.c_str(), &s) != 0) return "";
  return fmt::format("{} {} {} {}.{:09} {}.{:09}", s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec,
                     s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
}

}  // namespace dml
