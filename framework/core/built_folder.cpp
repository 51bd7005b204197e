#include "core/built_folder.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kDigest = 32;  // hex digits

std::string lock_path(const std::string& root, const std::string& digest) { return root + "/." + digest + ".lock"; }

// The digest in a name .DIGEST.lock or .DIGEST.tmp-…; "" for other names.
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
    std::optional<FileLock> lock;
    if (digest != held) {
      try {
        lock = FileLock::try_for(lock_path(root, digest));
      } catch (const IoError&) {
        continue;
      }
      if (!lock || !lock->held()) continue;
    }
    for (auto& folder : folders) fs::remove_all(folder, error);
  }
}

}  // namespace

BuildLock::BuildLock(std::string root, std::string digest)
    : root_(std::move(root)), digest_(std::move(digest)), lock_(FileLock::wait_for(lock_path(root_, digest_))) {}

void BuildLock::remove_leftovers() const {
  if (lock_.held()) remove_unheld(root_, digest_);
}

void remove_leftovers(const std::string& root) { remove_unheld(root, ""); }

}  // namespace dml
