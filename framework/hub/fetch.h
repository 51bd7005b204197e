// Downloads a model or dataset of the Hub into the cache. Files in the cache are not downloaded again, and partial
// downloads are continued; of several processes one downloads while the others wait. Links of the snapshot are created
// file by file; refs/REVISION is written last.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hub/client.h"
#include "hub/listing.h"
#include "hub/snapshot_parts.h"

namespace dml {

/// Selects the files of a repository to download; its card (README.md), if any, is already in `folder`. UserError
/// explaining why no file matches.
using FileChoice =
    std::function<std::vector<std::string>(const std::string& folder, const std::vector<std::string>& files)>;

struct FetchRequest {
  HubKind kind = HubKind::model;
  HubName name;
  /// Globs ("*.gguf", "data/train-*"). Default: the files that a run reads: config, tokenizer and safetensors of a
  /// model, data files of a dataset.
  std::vector<std::string> include;
  FileChoice choose;     // replaces `include`; not with dry_run
  bool dry_run = false;  // list only, write nothing
  int connections = 8;
  std::uint64_t range_bytes = std::uint64_t{16} << 20;
};

struct Fetched {
  std::string commit, folder;            // of the snapshot
  std::vector<HubFile> files;            // the selected files
  std::uint64_t bytes = 0, missing = 0;  // bytes of these; bytes of those that were not in the cache
};

/// Downloads the files. UserError (name, access, no matching file, offline, disk space) or IoError (network, disk,
/// digest).
Fetched fetch_from_hub(const HubClient& client, const FetchRequest& request);

/// The files of a listing that a request selects; `folder`: of the snapshot.
std::vector<HubFile> chosen_files(const std::vector<HubFile>& files, const FetchRequest& request,
                                  const std::string& folder = {});

/// The snapshot folder of a dataset that a recipe names: from the cache if it holds all files that `choose` selects,
/// else downloaded, unless HF_HUB_OFFLINE is set. Empty for a text that is not "ORG/NAME".
std::optional<std::string> hub_dataset_folder(const std::string& name, const FileChoice& choose);

/// The snapshot folder of a model: from the cache, without a request, if it holds these parts; else the model is
/// downloaded, without weights if they are not needed. With HF_HUB_OFFLINE, what the cache has; UserError if that is
/// only a part. Empty for a text that is not "ORG/NAME".
std::optional<std::string> hub_model_folder(const std::string& name, const SnapshotParts& parts = {});

}  // namespace dml
