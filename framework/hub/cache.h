// Finds models and datasets of the Hugging Face Hub by name in the local cache that its tools share (huggingface_hub's
// docs, "Understand caching"). fetch.h fills it.
//
//   $HF_HUB_CACHE/models--ORG--NAME/refs/main                  the commit
//                                  /snapshots/COMMIT/FILE      links into blobs/
//                                  /blobs/DIGEST               contents, named by SHA-256 (large files) or git's SHA-1
//                .locks/models--ORG--NAME/DIGEST.lock          held while the blob is written
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dml {

enum class HubKind { model, dataset };
/// "model"
const char* name_of(HubKind kind);

/// "ORG/NAME" or "NAME", and a revision (after '@'): a branch, tag or commit.
struct HubName {
  std::string id, revision = "main";

  /// "ORG/NAME", with "@REVISION" unless it is main.
  std::string text() const;
};
/// Parses a name; empty if the text cannot be one.
std::optional<HubName> parse_hub_name(std::string_view text);

/// The folder of Hugging Face's tools: HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface; "" if the
/// environment defines no home.
std::string hub_home();
/// HF_HUB_CACHE, else `hub` in hub_home(); "" if there is none.
std::string hub_cache_directory();
/// Whether a variable of Hugging Face's tools is set to 1, on, yes or true.
bool hub_variable_on(const char* name);
/// Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids the network.
bool hub_offline();
/// "models--ORG--NAME"
std::string hub_folder_name(HubKind kind, const std::string& id);
/// Whether a revision is a commit (40 hex digits), whose contents never change.
bool is_hub_commit(std::string_view revision);

/// The folder of the snapshot; empty if it is not in the cache.
std::optional<std::string> find_in_hub_cache(HubKind kind, std::string_view name);

/// The end of an error message for a path or name of the Hub that was not found, beginning with "; ": a name that is
/// like it in its folder, or how to download it; "" if there is nothing to say.
std::string missing_advice(HubKind kind, const std::string& name);
/// "To download it: dml fetch NAME"; offline with what must be done first.
std::string fetch_advice(HubKind kind, const HubName& name);

}  // namespace dml
