// Pushes a folder to a repository of the Hub: large files through Git LFS (in several parts if the server requests it),
// then one commit that makes all files visible at once (huggingface_hub: _commit_api.py, lfs.py).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hub/client.h"

namespace dml {

struct PushRequest {
  HubKind kind = HubKind::model;
  std::string id, revision = "main";
  std::string folder;                // the folder to push
  std::string below;                 // folder in the repository; "" for its root
  std::vector<std::string> include;  // globs; default: the files of a model or adapter, or of a dataset
  std::string message = "Upload with dml";
  bool make_private = false;  // create the repository as private
  bool dry_run = false;       // only list the files
};

struct LocalFile {
  std::string path;  // relative to the folder
  std::uint64_t size = 0;
};

struct Pushed {
  std::vector<LocalFile> files;       // without those that the repository's .gitignore names
  std::uint64_t bytes = 0, sent = 0;  // bytes of these; bytes of large files that were uploaded
  std::string url;                    // URL of the commit
};

struct FilesToPush {
  std::vector<LocalFile> files;       // by path
  std::vector<std::string> left_out;  // what is not of a model or dataset; empty with `include`
};
/// UserError when there are none. Optimizer state, prepared data and logs are included only by `include`.
FilesToPush files_to_push(const PushRequest& request);

/// Pushes. UserError (no token, no permission, no such folder) or IoError (network). The repository shows either all
/// files or none.
Pushed push_to_hub(const HubClient& client, const PushRequest& request);

}  // namespace dml
