// Models and datasets by their names on the Hugging Face Hub, in the cache that its tools share on this machine: names,
// folders and the reading of what is there (huggingface_hub's docs, "Understand caching"). fetch.h fills it.
//
//   $HF_HUB_CACHE/models--ORG--NAME/refs/main                  the commit
//                                  /snapshots/COMMIT/FILE      links into blobs/
//                                  /blobs/DIGEST               contents, named by SHA-256 (large files) or git's SHA-1
//                .locks/models--ORG--NAME/DIGEST.lock          held by who writes the blob
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dml {

enum class HubKind { model, dataset };
/// "model"
const char* name_of(HubKind kind);

/// "ORG/NAME" or "NAME", and what follows an '@': a branch, tag or commit.
struct HubName {
  std::string id, revision = "main";

  /// "ORG/NAME", with "@REVISION" unless it is main.
  std::string text() const;
};
/// Empty where the text cannot be such a name.
std::optional<HubName> parse_hub_name(std::string_view text);

/// HF_HUB_CACHE, or $HF_HOME/hub, or ~/.cache/huggingface/hub; "" where the environment names no home.
std::string hub_cache_directory();
/// "models--ORG--NAME"
std::string hub_folder_name(HubKind kind, const std::string& id);
/// Whether a revision is a commit (40 hex digits), whose contents never change.
bool is_hub_commit(std::string_view revision);

/// The snapshot's folder; empty where it is not in the cache.
std::optional<std::string> find_in_hub_cache(HubKind kind, std::string_view name);

/// The error message for a name that was not found: "" when it can be no name of the Hub, else where it was looked for
/// and how to get it, beginning with "; ".
std::string hub_advice(HubKind kind, std::string_view name);

}  // namespace dml
