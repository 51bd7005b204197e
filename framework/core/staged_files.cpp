#include "core/staged_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/left_over.h"

namespace dml {
namespace fs = std::filesystem;

StagedFiles::StagedFiles(std::string directory)
    : directory_(std::move(directory)), temporary_(temporary_name(directory_ + "/final")) {
  make_directories(temporary_);
}

StagedFiles::~StagedFiles() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void StagedFiles::commit() {
  std::vector<fs::path> files;
  for (auto& entry : fs::directory_iterator(temporary_)) files.push_back(entry.path());
  std::ranges::sort(files);
  for (auto& file : files) sync_path(file.string());
  for (auto& file : files) {
    std::error_code error;
    const fs::path target = fs::path(directory_) / file.filename();
    if (fs::is_directory(file)) fs::remove_all(target, error);  // a folder is not renamed onto one that has files
    fs::rename(file, target, error);
    if (error) throw IoError(fmt::format("{}: {}", target.string(), error.message()));
  }
  sync_path(directory_);
}

}  // namespace dml
