#include "hub/cache.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <vector>

#include "core/closest.h"
#include "core/directory.h"
#include "core/environment.h"
#include "core/error.h"
#include "core/files.h"
#include "core/text.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kCommit = 40;  // hex digits

bool is_part(std::string_view part) {
  constexpr std::size_t kLongest = 96;
  auto allowed = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  auto inside = [](char c) { return c != '-' && c != '.'; };
  return !part.empty() && part.size() <= kLongest && std::ranges::all_of(part, allowed) && inside(part.front()) &&
         inside(part.back()) && part.find("--") == part.npos && part.find("..") == part.npos;
}

bool is_revision(std::string_view text) {
  auto allowed = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/'; };
  return !text.empty() && text.size() <= 200 && std::ranges::all_of(text, allowed) && text.front() != '/' &&
         text.find("..") == text.npos;
}

std::string prefix_of(HubKind kind) { return kind == HubKind::model ? "models--" : "datasets--"; }

// The names of cached repositories, for suggestions.
std::vector<std::string> known_names(HubKind kind, const std::string& cache) {
  constexpr std::size_t kMax = 1000;
  std::vector<std::string> known;
  const std::string prefix = prefix_of(kind);
  std::error_code unreadable;
  for (fs::directory_iterator it(cache, unreadable), end; !unreadable && it != end && known.size() < kMax;
       it.increment(unreadable))
    if (std::string folder = it->path().filename().string(); folder.starts_with(prefix)) {
      folder.erase(0, prefix.size());
      if (const std::size_t dashes = folder.find("--"); dashes != folder.npos) folder.replace(dashes, 2, "/");
      known.push_back(folder);
    }
  return known;
}

std::string commit_of(const std::string& repository, const std::string& revision) {
  if (is_hub_commit(revision)) return revision;
  const std::string file = repository + "/refs/" + revision;
  if (!file_exists(file)) return {};
  std::string text = read_file(file, 4096);
  text.erase(std::ranges::find_if(text, [](unsigned char c) { return std::isspace(c); }), text.end());
  return is_hub_commit(text) ? text : "";
}

// Whether a name ends like that of a file, with an extension of letters; "Qwen3-0.6B" does not.
bool is_file_name(const fs::path& path) {
  const std::string extension = path.extension();
  return extension.size() > 1 &&
         std::all_of(extension.begin() + 1, extension.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
}

}  // namespace

const char* name_of(HubKind kind) { return kind == HubKind::model ? "model" : "dataset"; }

std::string HubName::text() const { return revision == "main" ? id : id + "@" + revision; }

bool is_hub_commit(std::string_view revision) {
  return revision.size() == kCommit && std::ranges::all_of(revision, [](unsigned char c) { return std::isxdigit(c); });
}

std::string hub_folder_name(HubKind kind, const std::string& id) {
  std::string name = prefix_of(kind);
  for (char c : id) name += c == '/' ? "--" : std::string(1, c);
  return name;
}

std::optional<HubName> parse_hub_name(std::string_view text) {
  HubName out;
  if (const std::size_t at = text.find('@'); at != text.npos) {
    out.revision = text.substr(at + 1);
    if (!is_revision(out.revision)) return std::nullopt;
    text = text.substr(0, at);
  }
  const std::size_t slash = text.find('/');
  const bool both = slash != text.npos;
  if (!is_part(text.substr(0, slash)) || (both && !is_part(text.substr(slash + 1)))) return std::nullopt;
  out.id = text;
  return out;
}

std::string hub_home() {
  if (std::string home = environment("HF_HOME"); !home.empty()) return home;
  const std::string caches = cache_home();
  return caches.empty() ? "" : caches + "/huggingface";
}

std::string hub_cache_directory() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (std::string given = environment(name); !given.empty()) return given;
  const std::string home = hub_home();
  return home.empty() ? "" : home + "/hub";
}

bool hub_variable_on(const char* name) {
  const std::string value = ascii_lower(environment(name));
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

bool hub_offline() { return hub_variable_on("HF_HUB_OFFLINE") || hub_variable_on("TRANSFORMERS_OFFLINE"); }

std::optional<std::string> find_in_hub_cache(HubKind kind, std::string_view name) {
  const auto parsed = parse_hub_name(name);
  const std::string cache = hub_cache_directory();
  if (!parsed || cache.empty()) return std::nullopt;
  const std::string repository = cache + "/" + hub_folder_name(kind, parsed->id),
                    commit = commit_of(repository, parsed->revision);
  const std::string folder = repository + "/snapshots/" + commit;
  std::error_code unreadable;
  if (commit.empty() || !fs::is_directory(folder, unreadable)) return std::nullopt;
  return folder;
}

std::string missing_advice(HubKind kind, const std::string& name) {
  const fs::path path(name);
  std::error_code unreadable;
  // Where its folder exists, the name is a path before it is a name of the Hub.
  const bool in_folder = path.has_parent_path() && fs::is_directory(path.parent_path(), unreadable);
  const std::string near = near_missing(name);
  if ((in_folder || !path.has_parent_path()) && near.starts_with("; did you mean")) return near;
  const auto parsed = parse_hub_name(name);
  if (!parsed || is_file_name(path)) return near;
  const std::string cache = hub_cache_directory();
  const std::vector<std::string> known = known_names(kind, cache);
  if (std::ranges::count(known, parsed->id) > 0)
    return fmt::format("; the cache {} has this {}, but not its revision '{}'", cache, name_of(kind), parsed->revision);
  return fmt::format("; as a {} of the Hub it is not in the cache {}{}. {}", name_of(kind), cache,
                     did_you_mean(parsed->id, known), fetch_advice(kind, *parsed));
}

std::string fetch_advice(HubKind kind, const HubName& name) {
  return fmt::format("To download it{}: dml fetch {}{}", hub_offline() ? ", unset HF_HUB_OFFLINE and run" : "",
                     kind == HubKind::model ? "" : "--dataset ", name.text());
}

}  // namespace dml
