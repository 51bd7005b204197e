// Models and datasets by their names on the Hugging Face Hub, where its tools have downloaded them on this machine: reading
// the cache of huggingface_hub (its docs, "Understand caching"). No network.
//
//   $HF_HUB_CACHE/models--ORG--NAME/refs/main                  the commit
//                                  /snapshots/COMMIT/FILE      links into blobs/
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dml {

enum class HubKind { model, dataset };

/// "ORG/NAME" or "NAME", and what follows an '@': a branch, tag or commit.
struct HubName {
  std::string id, revision = "main";
};
/// Nothing for a text that can be no such name.
std::optional<HubName> parse_hub_name(std::string_view text);

/// HF_HUB_CACHE, or $HF_HOME/hub, or ~/.cache/huggingface/hub; "" where the environment names no home.
std::string hub_cache_directory();

/// The snapshot's folder; nothing when the cache does not have it.
std::optional<std::string> find_in_hub_cache(HubKind kind, std::string_view name);

/// What to say of a name that leads nowhere: "" when it can be no name of the Hub, else where it was looked for and how to
/// get it, beginning with "; ".
std::string hub_advice(HubKind kind, std::string_view name);

}  // namespace dml
