#include "core/directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"

namespace dml {

void require_directory(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) {
    if (faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0) return;
    throw UserError("{}: {}", path, std::strerror(errno));
  }
  if (std::filesystem::exists(status))
    throw UserError("{}: is a file, not a directory; name the directory it is in", path);
  throw UserError("{}: {}", path, missing_path(path) ? "no such directory" : path_problem(path));
}

bool directory_has(const std::string& directory, std::string_view name) {
  if (!missing_path(directory)) require_directory(directory);
  return file_exists(path_in(directory, name));
}

std::string nearest_existing(const std::string& path) {
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(path.empty() ? "." : path, error);
  while (!file_exists(place) && place.has_relative_path()) place = place.parent_path();
  return place;
}

bool can_run(const std::string& program) {
  if (program.find('/') != program.npos) return access(program.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  for (std::string all = path ? path : "/usr/bin:/bin"; !all.empty();) {
    const auto end = all.find(':');
    if (access((all.substr(0, end) + "/" + program).c_str(), X_OK) == 0) return true;
    all = end == all.npos ? "" : all.substr(end + 1);
  }
  return false;
}

std::string near_missing(const std::string& path) {
  constexpr std::size_t kMaxNames = 1000;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path(),
                              folder = parent.empty() ? "." : parent;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return fmt::format("; there is no directory {}", folder.string());
  std::vector<std::string> names;
  for (auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (names.size() >= kMaxNames) break;
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  const std::string near = closest(std::filesystem::path(path).filename().string(), names);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

}  // namespace dml
