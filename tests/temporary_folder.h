// A temporary folder with a unique name, removed with its owner.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/error.h"

namespace dml::testing_tools {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "dml-test-XXXXXX").string()) {
    DML_CHECK(mkdtemp(path_.data()) != nullptr, "no folder can be made like {}", path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace dml::testing_tools
