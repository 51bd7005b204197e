#include "data/folder_listing.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/row_file_names.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxFiles = 100000;

// The Arrow files that state.json in a folder of save_to_disk names; unset in another folder.
std::optional<std::set<std::string>> saved_files(const fs::path& folder) {
  const std::string path = (folder / "state.json").string();
  if (!file_exists(path)) return std::nullopt;
  const Json state = read_json(path);
  const auto files = state.find("_data_files");
  if (files == state.end() || !files->is_array()) return std::nullopt;
  if (const auto indices = state.find("_indices_data_files"); indices != state.end() && !indices->empty())
    throw UserError(
        "{}: the dataset selects its rows by an indices file, which dml does not read; write it without one: "
        "load_from_disk(…).flatten_indices().save_to_disk(…)",
        path);
  std::set<std::string> out;
  for (const Json& file : *files) out.insert(json_string(file, "filename", "", path));
  return out;
}

// Beside the files that state.json names may lie caches of map() and shards of an earlier save.
void keep_saved_files(const std::string& folder, std::vector<std::string>& names) {
  std::map<fs::path, std::optional<std::set<std::string>>> saved;
  std::erase_if(names, [&](const std::string& name) {
    const fs::path path(name), inner = path.parent_path();
    if (path.extension() != ".arrow") return false;
    const auto [at, fresh] = saved.try_emplace(inner);
    if (fresh) at->second = saved_files(folder / inner);
    return at->second && !at->second->contains(path.filename().string());
  });
}

}  // namespace

FolderListing list_folder(const std::string& folder, const std::function<bool(const std::string&)>& wanted) {
  FolderListing out;
  std::error_code error, unreadable;
  fs::recursive_directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    const fs::directory_entry& entry = *it;
    // A folder of prepared data beside its sources is skipped: its list of dropped rows is not a dataset.
    if (entry.is_directory(unreadable) && fs::exists(entry.path() / "ids.safetensors", unreadable))
      it.disable_recursion_pending();
    auto relative = entry.path().lexically_relative(folder);
    bool hidden =
        std::any_of(relative.begin(), relative.end(), [](auto& part) { return part.string().starts_with("."); });
    const std::string file = entry.path().string();
    if (!hidden && (is_archive_name(file) || has_unread_extension(file)) && entry.is_regular_file(unreadable))
      out.unread.push_back(relative.string());
    if (hidden || !wanted(file)) continue;
    if (auto why = path_problem(file); !why.empty()) throw UserError("{}: cannot be read: {}", file, why);
    if (!entry.is_regular_file(unreadable)) continue;
    if (out.names.size() >= kMaxFiles) throw UserError("{}: more than {} files", folder, kMaxFiles);
    out.names.push_back(relative.string());
  }
  if (error) throw UserError("{}: cannot be read: {}", folder, error.message());
  std::ranges::sort(out.names);
  std::ranges::sort(out.unread);
  keep_saved_files(folder, out.names);
  return out;
}

}  // namespace dml
