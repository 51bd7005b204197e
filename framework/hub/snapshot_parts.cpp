#include "hub/snapshot_parts.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/model_file_names.h"
#include "hub/cache.h"
#include "hub/file_patterns.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";
const std::vector<std::string> kAdapterWeights{"adapter_model.safetensors",  // PEFT
                                               "adapters.safetensors"};      // mlx-lm

std::string list_place(const std::string& snapshot) {
  const fs::path path(snapshot);
  return (path.parent_path().parent_path() / "listings" / path.filename()).string();
}

// Whether all shards that an index names are there. A damaged index counts as whole: reading it says what is wrong.
bool has_all_shards(const std::string& snapshot) {
  constexpr JsonLimits kLimits{std::size_t{128} << 20, 8, std::size_t{1} << 20, std::size_t{1} << 22};
  try {
    const WideJson index = read_wide_json(snapshot + "/" + kIndex, kLimits);
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) return true;
    std::set<std::string> shards;
    for (const auto& shard : index["weight_map"])
      if (shard.is_string()) shards.insert(shard.get<std::string>());
    return std::ranges::all_of(shards, [&](const std::string& shard) { return file_exists(snapshot + "/" + shard); });
  } catch (const UserError&) {
    return true;
  }
}

// The files of a snapshot, beside those that its commit has.
class SnapshotFiles {
 public:
  explicit SnapshotFiles(const std::string& snapshot) : snapshot_(snapshot), listed_(listed_files(snapshot)) {}

  bool has(const std::string& name) const { return file_exists(snapshot_ + "/" + name); }
  bool lacks(const std::string& name) const { return !has(name) && may_list(name); }
  bool is_listed(const std::string& name) const { return listed_ && listed_->contains(name); }

  bool lacks_weights() const {
    if (has("model.safetensors")) return false;
    return has(kIndex) ? !has_all_shards(snapshot_) : may_list("model.safetensors") || may_list(kIndex);
  }
  bool lacks_tokenizer() const {
    if (is_listed("tokenizer_config.json") && !has("tokenizer_config.json")) return true;
    if (has("tokenizer.json") || has("tokenizer.model") || (has("vocab.json") && has("merges.txt"))) return false;
    return may_list("tokenizer.json") || may_list("tokenizer.model") || may_list("vocab.json");
  }
  // Without a config.json of its own, as adapters of PEFT and mlx-lm are stored.
  bool lacks_adapter_weights() const {
    return std::ranges::none_of(kAdapterWeights, [&](auto& name) { return has(name); }) &&
           std::ranges::any_of(kAdapterWeights, [&](auto& name) { return may_list(name); });
  }
  bool are_of_adapter() const { return has("adapter_config.json") && !has("config.json") && !is_listed("config.json"); }

 private:
  bool may_list(const std::string& name) const { return !listed_ || listed_->contains(name); }

  const std::string& snapshot_;
  const std::optional<std::set<std::string>> listed_;
};

}  // namespace

bool belongs_to_model(const std::string& path) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"quantize_config.json", "README.md", "LICENSE*"};
    all.push_back(fmt::format("{}/*{}", kTemplateFolder, kTemplateExtension));
    all.insert(all.end(), kAdapterWeights.begin(), kAdapterWeights.end());
    all.insert(all.end(), kConfigFiles.begin(), kConfigFiles.end());
    all.insert(all.end(), kTokenizerFiles.begin(), kTokenizerFiles.end());
    all.insert(all.end(), kOtherTokenizerFiles.begin(), kOtherTokenizerFiles.end());
    return all;
  }();
  return fits_any(names, path) || holds_weights(path);
}

bool holds_weights(const std::string& path) {
  static const std::vector<std::string> names{"model.safetensors", "model-*-of-*.safetensors", kIndex};
  return fits_any(names, path);
}

std::optional<std::set<std::string>> listed_files(const std::string& snapshot) {
  constexpr std::size_t kLongest = std::size_t{256} << 20;
  const std::string list = list_place(snapshot);
  if (!file_exists(list)) return std::nullopt;
  std::set<std::string> names;
  std::istringstream lines(read_file(list, kLongest));
  for (std::string line; std::getline(lines, line);) names.insert(line);
  return names;
}

void write_listed_files(const std::string& snapshot, const std::set<std::string>& names) {
  if (listed_files(snapshot) == names) return;
  std::string lines;
  for (const std::string& name : names) lines += name + '\n';
  const std::string list = list_place(snapshot);
  make_directories(fs::path(list).parent_path());
  write_file(list, lines);
}

std::string lacking_parts(const std::string& snapshot, const SnapshotParts& needed) {
  const SnapshotFiles files(snapshot);
  if (files.are_of_adapter()) return files.lacks_adapter_weights() ? "weights" : "";
  std::vector<std::string> lacking;
  if (needed.config && files.lacks("config.json")) lacking.emplace_back("config.json");
  if (needed.weights && files.lacks_weights()) lacking.emplace_back("weights");
  if (needed.tokenizer && files.lacks_tokenizer()) lacking.emplace_back("tokenizer");
  if (lacking.size() > 1) lacking.back() = "and " + lacking.back();
  return fmt::format("{}", fmt::join(lacking, lacking.size() > 2 ? ", " : " "));
}

std::string partial_model_text(const std::string& name, const std::string& snapshot, const std::string& lacking) {
  const auto parsed = parse_hub_name(name);
  return fmt::format("the cache has only a part of model {}, without its {}: {}. {}", name, lacking, snapshot,
                     parsed ? fetch_advice(HubKind::model, *parsed) : "");
}

}  // namespace dml
