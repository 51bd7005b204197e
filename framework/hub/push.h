// Pushes a folder to a repository of the Hub: large files through Git LFS (in parts, where the server asks for parts),
// then one commit that makes all of it visible at once (huggingface_hub: _commit_api.py, lfs.py).
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
  std::string below;                 // folder of the repository; "" for its root
  std::vector<std::string> include;  // globs; without any, what belongs to a model or adapter, or to a dataset
  std::string message = "Upload with dml";
  bool make_private = false;  // when the repository is made
  bool dry_run = false;       // list, and send nothing
};

struct LocalFile {
  std::string path;  // below the folder
  std::uint64_t size = 0;
};

struct Pushed {
  std::vector<LocalFile> files;
  std::uint64_t bytes = 0, sent = 0;  // of these; of large files that the Hub did not have
  std::string url;                    // of the commit
};

/// The files that would be pushed, by path. UserError when there are none. Optimizer state, prepared data and logs are
/// no part of a result: they are taken only by name (`include`).
std::vector<LocalFile> files_to_push(const PushRequest& request);

/// UserError (no token, no permission, no such folder) or IoError (network). Nothing is visible in the repository
/// unless all of it is.
Pushed push_to_hub(const HubClient& client, const PushRequest& request);

}  // namespace dml
