// Lists a repository of the Hub at a revision: its commit, and every file with size and digest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hub/client.h"

namespace dml {

struct HubFile {
  std::string path;
  std::uint64_t size = 0;
  std::string
      digest;  // SHA-256 in hex of a file in LFS, else git's SHA-1 of it as a blob: the name of its blob in the cache

  bool is_large() const { return digest.size() == 64; }
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;  // by path
};

/// Lists the files. UserError when the repository or revision does not exist or is not accessible, or for an invalid
/// path or digest.
HubListing list_hub_files(const HubClient& client, HubKind kind, const HubName& name);

/// Whether `path` may be created below a folder: relative, without "." and "..", control characters and very long
/// names.
bool is_safe_hub_path(const std::string& path);

}  // namespace dml
