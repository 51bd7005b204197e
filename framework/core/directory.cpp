#include "core/directory.h"

#include <filesystem>

#include "core/error.h"
#include "core/files.h"

namespace dml {

void require_directory(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) return;
  if (std::filesystem::exists(status))
    throw UserError("{}: is a file, not a directory; name the directory it is in", path);
  throw UserError("{}: {}", path, missing_path(path) ? "no such directory" : path_problem(path));
}

}  // namespace dml
