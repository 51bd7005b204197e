// Several files that are replaced together.
#pragma once

#include <string>

namespace dml {

/// Collects files and folders in a temporary folder; commit() moves each into `directory` by one rename, replacing an
/// existing one. IoError.
class StagedFiles {
 public:
  explicit StagedFiles(std::string directory);
  ~StagedFiles();
  StagedFiles(const StagedFiles&) = delete;
  StagedFiles& operator=(const StagedFiles&) = delete;
  const std::string& path() const { return temporary_; }
  void commit();

 private:
  std::string directory_, temporary_;
};

}  // namespace dml
