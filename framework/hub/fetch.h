// Downloads a model or dataset of the Hub into the cache. Files in the cache are not downloaded again, partial ones are
// continued; of several processes one downloads and the others wait. The snapshot gets its links file by file;
// refs/REVISION is written last.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hub/client.h"
#include "hub/listing.h"

namespace dml {

/// Chooses the files of a repository to download; its card (README.md), if it has one, is in `folder` already.
/// UserError explaining why no file fits.
using FileChoice =
    std::function<std::vector<std::string>(const std::string& folder, const std::vector<std::string>& files)>;

struct FetchRequest {
  HubKind kind = HubKind::model;
  HubName name;
  /// Globs ("*.gguf", "data/train-*"); without any, what a run reads: of a model config, tokenizer and safetensors, of
  /// a dataset the files of rows.
  std::vector<std::string> include;
  FileChoice choose;     // instead of `include`; not with dry_run
  bool dry_run = false;  // list only, write nothing
  int connections = 8;
  std::uint64_t range_bytes = std::uint64_t{16} << 20;
};

struct Fetched {
  std::string commit, folder;            // of the snapshot
  std::vector<HubFile> files;            // that were chosen
  std::uint64_t bytes = 0, missing = 0;  // of these; of those, not in the cache before
};

/// UserError (name, access, no file fits, offline, no room) or IoError (network, disk, digest).
Fetched fetch_from_hub(const HubClient& client, const FetchRequest& request);

/// The files of a listing that a request means; `folder`: of the snapshot.
std::vector<HubFile> chosen_files(const std::vector<HubFile>& files, const FetchRequest& request,
                                  const std::string& folder = {});

/// The snapshot's folder of a name that a recipe gives: the cache's, where it holds all files that `choose` names, or
/// downloaded now, unless HF_HUB_OFFLINE is set. Nothing for a text that is no "ORG/NAME".
std::optional<std::string> hub_folder(HubKind kind, const std::string& name, const FileChoice& choose = {});

}  // namespace dml
