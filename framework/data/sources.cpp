#include "data/sources.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "core/closest.h"
#include "core/directory.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/row_file_names.h"
#include "core/text.h"
#include "data/archive.h"
#include "data/byte_stream.h"
#include "data/dataset_card.h"
#include "data/file_names.h"
#include "data/path_pattern.h"
#include "hub/cache.h"
#include "recipe/recipe.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxFiles = 100000;
const std::string kWhole = "train";  // the split of data without splits

// The delimiter: of comma, semicolon and tab the most frequent one in the first line, outside of quotes.
char delimiter_of(std::string_view head) {
  std::size_t commas = 0, semicolons = 0, tabs = 0;
  bool quoted = false;
  for (char c : head) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n') break;
    commas += c == ',';
    semicolons += c == ';';
    tabs += c == '\t';
  }
  if (semicolons > commas && semicolons >= tabs) return ';';
  return tabs > commas ? '\t' : ',';
}

SourceFile csv_file(const std::string& path, std::string why, std::string_view head) {
  const char delimiter = delimiter_of(head);
  if (delimiter == ';') why += ", with semicolons between the columns";
  if (delimiter == '\t') why += ", with tabs between the columns";
  return {path, RowForm::csv, why, delimiter};
}

SourceFile sniff(const std::string& path, const std::optional<std::string>& ds_type) {
  char head[4096];
  std::size_t size = 0;
  auto stream = open_stream(path);
  while (size < sizeof head) {
    std::size_t n = stream->read(head + size, sizeof head - size);
    if (n == 0) break;
    size += n;
  }
  std::string_view text(head, size);
  if (text.starts_with("PAR1")) return {path, RowForm::parquet, "starts with 'PAR1'"};
  if (text.starts_with("ARROW1") || text.starts_with("FEA1")) return {path, RowForm::arrow, "starts with 'ARROW1'"};
  if (text.starts_with("\xff\xff\xff\xff")) return {path, RowForm::arrow, "starts as an Arrow stream"};
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw UserError("{}: is UTF-16; convert it: iconv -f UTF-16 -t UTF-8", path);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos && size < sizeof head) throw UserError("{}: the file is empty", path);

  bool array = first != std::string_view::npos && text[first] == '[';
  auto json = [&](const std::string& why) {
    return array ? SourceFile{path, RowForm::json_array, "starts with '['"}
                 : SourceFile{path, RowForm::json_lines, why};
  };
  if (ds_type) {
    std::string type = ascii_lower(*ds_type), why = fmt::format("ds_type: {}", *ds_type);
    if (type == "json" || type == "jsonl") return json(why);
    if (type == "csv") return csv_file(path, why, text);
    if (type == "tsv") return {path, RowForm::csv, why, '\t'};
    if (type == "text" || type == "txt") return {path, RowForm::text, why};
    if (type == "document") return {path, RowForm::document, why};
    if (type == "parquet") return {path, RowForm::parquet, why};
    if (type == "arrow") return {path, RowForm::arrow, why};
    std::vector<std::string> choices{"json", "csv", "tsv", "text", "document", "parquet", "arrow"};
    throw UserError("unknown ds_type '{}'{}", *ds_type, did_you_mean(type, choices));
  }
  const std::string e = row_extension(path), why = fmt::format("extension {}", e);
  if (e == ".csv") return csv_file(path, why, text);
  if (e == ".tsv") return {path, RowForm::csv, why, '\t'};
  if (e == ".parquet") return {path, RowForm::parquet, why};
  if (e == ".arrow") return {path, RowForm::arrow, why};
  if (e == ".txt" || e == ".text") return {path, RowForm::text, why};
  if (e == ".md" || e == ".markdown" || e == ".rst") return {path, RowForm::document, why};
  if (e == ".json" || e == ".jsonl" || e == ".jsonlines" || e == ".ndjson") return json(why);
  if (array || (first != std::string_view::npos && text[first] == '{')) return json("starts with '{'");
  if (text.find('\0') != std::string_view::npos) throw UserError("{}: is not a text file", path);
  throw UserError("{}: unknown file type; set ds_type to json, csv, tsv, text, document, parquet or arrow", path);
}

[[noreturn]] void missing(const std::string& path) {
  std::error_code error;
  const std::string why = path_problem(path);
  if (fs::is_symlink(fs::symlink_status(path, error)))
    throw UserError("{}: is a symbolic link that cannot be followed: {}", path, why);
  if (!why.empty() && !missing_path(path)) throw UserError("{}: cannot be read: {}", path, why);
  throw UserError("{}: no such {}{}", path, path.ends_with('/') ? "directory" : "file or directory",
                  missing_advice(HubKind::dataset, path));
}

// "a, b, c, d, e and 7 more"
std::string listed(const std::vector<std::string>& names) {
  constexpr std::ptrdiff_t kShown = 5;
  const auto shown = std::min(kShown, std::ssize(names));
  std::string out = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  return std::ssize(names) > shown ? fmt::format("{} and {} more", out, std::ssize(names) - shown) : out;
}

// The files of a split among `names`, which are relative to `root`; warns of texts beside files of rows, and of files
// of other splits.
FilesOfSplit files_to_read(std::vector<std::string> names, const DatasetEntry& dataset, const std::string& root) {
  if (const auto texts = take_texts_beside_rows(names, dataset); !texts.empty())
    log_warning("{}: text files beside files of rows are not read as rows: {}; data_files chooses the files", root,
                listed(texts));
  FilesOfSplit chosen = select_split(names, dataset);
  if (!chosen.left_out.empty())
    log_warning("{}: files of other splits are not read: {}; data_files chooses the files", root,
                listed(chosen.left_out));
  return chosen;
}

// Paths of an archive's members: those of `data_files`, or the readable ones of the split.
std::vector<std::string> archive_files(const std::string& archive, const DatasetEntry& dataset) {
  std::vector<std::string> members;
  for (const std::string& member : archive_members(archive)) {
    auto fits = [&](const std::string& pattern) { return fits_pattern(pattern, member); };
    const bool asked = std::ranges::any_of(dataset.data_files, fits);
    if (dataset.data_files.empty() ? names_rows(member, asks_for_documents(dataset)) : asked) members.push_back(member);
  }
  if (members.empty())
    throw UserError(
        "{}: {}", archive,
        dataset.data_files.empty() ? "the archive has no file of rows" : "no file of the archive fits data_files");
  if (dataset.data_files.empty()) members = files_to_read(members, dataset, archive).files;
  for (std::string& member : members) member = archive + "::" + member;
  return members;
}

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

// Files of a folder; those named after the split when there are any ("train.jsonl" beside "valid.jsonl").
std::vector<std::string> folder_files(const std::string& folder, const DatasetEntry& dataset) {
  const bool documents = asks_for_documents(dataset);
  std::vector<std::string> names, unread;
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
      unread.push_back(relative.string());
    if (hidden || !names_rows(file, documents)) continue;
    if (auto why = path_problem(file); !why.empty()) throw UserError("{}: cannot be read: {}", file, why);
    if (!entry.is_regular_file(unreadable)) continue;
    if (names.size() >= kMaxFiles) throw UserError("{}: more than {} files", folder, kMaxFiles);
    names.push_back(relative.string());
  }
  if (error) throw UserError("{}: cannot be read: {}", folder, error.message());
  std::ranges::sort(names);
  std::ranges::sort(unread);
  keep_saved_files(folder, names);
  const std::string not_read = fmt::format(
      "files that are not read: {} (an archive needs an entry of its own, others an extension that dml knows)",
      listed(unread));
  if (names.empty())
    throw UserError("{}: the directory has no {} file{}", folder,
                    documents ? ".txt or .md" : ".json, .jsonl, .csv, .tsv, .parquet, .arrow or .txt",
                    unread.empty() ? "" : "; " + not_read);
  if (!unread.empty()) log_warning("{}: {}", folder, not_read);
  const FilesOfSplit chosen = files_to_read(names, dataset, folder);
  if (!chosen.named && split_of(dataset) != kWhole)
    throw UserError("{}: no file of this directory is named after split '{}'; list the files in data_files", folder,
                    split_of(dataset));
  std::vector<std::string> files;
  for (const std::string& name : chosen.files) files.push_back((fs::path(folder) / name).string());
  return files;
}

// The files of an entry with one split.
std::vector<SourceFile> sources_of_split(const DatasetEntry& dataset) {
  std::vector<std::string> paths;
  const std::string split = split_of(dataset);
  auto add = [&](const std::string& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      auto files = folder_files(path, dataset);
      paths.insert(paths.end(), files.begin(), files.end());
    } else if (fs::exists(path, error) && is_archive_name(path)) {
      auto files = archive_files(path, dataset);
      paths.insert(paths.end(), files.begin(), files.end());
    } else if (fs::exists(path, error)) {
      paths.push_back(path);
    } else if (is_pattern(path)) {
      const auto found = paths_of_pattern(path);
      if (found.empty()) throw UserError("{}: no file matches this pattern", path);
      paths.insert(paths.end(), found.begin(), found.end());
    } else {
      missing(path);
    }
  };
  std::error_code unknown;
  std::string root = fs::exists(dataset.path, unknown)
                         ? dataset.path
                         : find_in_hub_cache(HubKind::dataset, dataset.path).value_or(dataset.path);
  std::optional<std::vector<std::string>> listed;
  if (dataset.data_files.empty()) listed = files_of_card(root, dataset.name, split);
  if (dataset.name && !listed) {
    std::error_code error;
    const fs::path inner = fs::path(root) / *dataset.name;
    if (!fs::exists(inner, error))
      throw UserError("{}: has no subdirectory '{}' (name: {})", root, *dataset.name, *dataset.name);
    root = inner.string();
  }
  const bool archive = is_archive_name(root) && fs::is_regular_file(root, unknown);
  if (listed)
    for (auto& file : *listed) add((fs::path(root) / file).string());
  else if (dataset.data_files.empty() || archive) add(root);
  else
    for (auto& file : dataset.data_files) add(fs::path(file).is_absolute() ? file : (fs::path(root) / file).string());
  if (dataset.data_files.empty()) std::sort(paths.begin(), paths.end());

  if (split != kWhole && !listed)
    for (auto& path : paths)
      if (ascii_lower(path).find(split) == std::string::npos && !select_split({path}, dataset).named)
        log_warning("{}: the whole file is used as split '{}'", path, split);
  std::vector<SourceFile> sources;
  for (auto& path : paths) {
    sources.push_back(sniff(path, dataset.ds_type));
    if (is_table(sources.back().form) && parse_archive_member(path))
      throw UserError("{}: {} files are read where they lie, not in archives; unpack the archive", path,
                      name_of(sources.back().form));
  }
  return sources;
}

}  // namespace

const char* name_of(RowForm form) {
  switch (form) {
    case RowForm::json_lines:
      return "JSON lines";
    case RowForm::json_array:
      return "a JSON array";
    case RowForm::csv:
      return "CSV";
    case RowForm::text:
      return "text lines";
    case RowForm::document:
      return "a document";
    case RowForm::parquet:
      return "Parquet";
    case RowForm::arrow:
      return "Arrow";
  }
  return "";
}

std::vector<SourceFile> find_sources(const DatasetEntry& dataset) {
  std::vector<SourceFile> sources;
  std::set<std::string> known;  // a file that is not named after a split is in each of them
  for (const DatasetEntry& part : entries_of_splits(dataset)) {
    const std::set<std::string> before = known;
    for (SourceFile& file : sources_of_split(part)) {
      if (before.contains(file.path)) continue;
      known.insert(file.path);
      sources.push_back(std::move(file));
    }
  }
  return sources;
}

}  // namespace dml
