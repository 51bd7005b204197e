#include "data/sources.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/row_file_names.h"
#include "core/text.h"
#include "data/archive.h"
#include "data/byte_stream.h"
#include "data/dataset_card.h"
#include "data/file_names.h"
#include "data/folder_listing.h"
#include "data/path_pattern.h"
#include "hub/cache.h"
#include "recipe/recipe.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

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

// A file with the form of its rows. Tables are mapped where they lie.
SourceFile readable_source(const std::string& path, const std::optional<std::string>& ds_type) {
  SourceFile file = sniff(path, ds_type);
  if (!is_table(file.form)) return file;
  if (parse_archive_member(path))
    throw UserError("{}: {} files are read where they lie, not in archives; unpack the archive", path,
                    name_of(file.form));
  if (row_extension(path) != ascii_lower(fs::path(path).extension().string()))
    throw UserError("{}: compressed {} files are not supported; decompress the file first", path, name_of(file.form));
  return file;
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

constexpr const char* kUnread = "files that are not read";
constexpr const char* kUnreadAdvice = " (an archive needs an entry of its own, others an extension that dml knows)";

// The files of folders and archives that an entry leaves out.
class Omissions {
 public:
  /// `names` are relative to `root`.
  void add(const std::string& root, const char* what, std::vector<std::string> names,
           const char* advice = "; data_files chooses the files") {
    all_.push_back({root, what, std::move(names), advice});
  }
  /// Warns of each list once, without the files in `read`: one split may leave out what another one reads.
  void warn(const std::set<std::string>& read) {
    std::set<std::string> told;
    for (Omission& o : all_) {
      std::erase_if(o.names, [&](const std::string& name) {
        return read.contains((fs::path(o.root) / name).string()) || read.contains(o.root + "::" + name);
      });
      if (o.names.empty()) continue;
      const std::string line = fmt::format("{}: {}: {}{}", o.root, o.what, listed(o.names), o.advice);
      if (told.insert(line).second) log_warning("{}", line);
    }
  }

 private:
  struct Omission {
    std::string root;
    const char* what;
    std::vector<std::string> names;
    const char* advice;
  };
  std::vector<Omission> all_;
};

// The error of a folder without files that are wanted.
[[noreturn]] void nothing_to_read(const std::string& folder, const char* extensions, const FolderListing& found) {
  throw UserError("{}: the directory has no {} file{}", folder, extensions,
                  found.unread.empty() ? "" : fmt::format("; {}: {}{}", kUnread, listed(found.unread), kUnreadAdvice));
}

// The files of a split among `names`, which are relative to `root`.
FilesOfSplit files_to_read(std::vector<std::string> names, const DatasetEntry& dataset, const std::string& root,
                           Omissions& omissions) {
  omissions.add(root, "text files beside files of rows are not read as rows", take_texts_beside_rows(names, dataset));
  FilesOfSplit chosen = select_split(names, dataset);
  omissions.add(root, "files of other splits are not read", chosen.left_out);
  omissions.add(root, "other files are named after split 'train', so these are not read", chosen.unnamed);
  return chosen;
}

// Paths of an archive's members: those of `data_files`, or the readable ones of the split.
std::vector<std::string> archive_files(const std::string& archive, const DatasetEntry& dataset, Omissions& omissions) {
  std::vector<std::string> members;
  for (const std::string& member : archive_members(archive)) {
    auto fits = [&](const std::string& pattern) { return fits_pattern(pattern, member); };
    const bool asked = std::ranges::any_of(dataset.data_files, fits);
    if (dataset.data_files.empty() ? names_rows(member, asks_for_documents(dataset)) : asked) members.push_back(member);
  }
  if (members.empty())
    throw UserError(
        "{}: {}", archive,
        dataset.data_files.empty() ? "the archive has no file of rows" : "no file of the archive matches data_files");
  if (dataset.data_files.empty()) members = files_to_read(members, dataset, archive, omissions).files;
  for (std::string& member : members) member = archive + "::" + member;
  return members;
}

// Files of a folder; those named after the split when there are any ("train.jsonl" beside "valid.jsonl").
std::vector<std::string> folder_files(const std::string& folder, const DatasetEntry& dataset, Omissions& omissions) {
  const bool documents = asks_for_documents(dataset);
  const FolderListing found = list_folder(folder, [&](const std::string& name) { return names_rows(name, documents); });
  if (found.names.empty())
    nothing_to_read(folder, documents ? ".txt or .md" : ".json, .jsonl, .csv, .tsv, .parquet, .arrow or .txt", found);
  omissions.add(folder, kUnread, found.unread, kUnreadAdvice);
  const FilesOfSplit chosen = files_to_read(found.names, dataset, folder, omissions);
  if (!chosen.named && split_of(dataset) != kWhole)
    throw UserError("{}: no file of this directory is named after split '{}'; list the files in data_files", folder,
                    split_of(dataset));
  std::vector<std::string> files;
  for (const std::string& name : chosen.files) files.push_back((fs::path(folder) / name).string());
  return files;
}

// A file or pattern of data_files: inside `root`, or else, as `datasets` reads it, below the working directory.
std::string listed_path(const std::string& file, const std::string& root) {
  const std::string inside = (fs::path(root) / file).string();
  std::error_code error;
  if (fs::path(file).is_absolute() || (!fs::exists(inside, error) && fs::exists(file, error))) return file;
  const bool is_link = fs::is_symlink(fs::symlink_status(inside, error));
  if (fs::is_directory(root, error) && !is_pattern(inside) && !is_link && missing_path(inside))
    throw UserError("{}: no such file or directory; data_files are names inside {}", inside, root);
  return inside;
}

// The files of an entry with one split.
std::vector<SourceFile> sources_of_split(const DatasetEntry& dataset, Omissions& omissions) {
  std::vector<std::string> paths;
  const std::string split = split_of(dataset);
  auto add = [&](const std::string& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      auto files = folder_files(path, dataset, omissions);
      paths.insert(paths.end(), files.begin(), files.end());
    } else if (fs::exists(path, error) && is_archive_name(path)) {
      auto files = archive_files(path, dataset, omissions);
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
  const bool file = fs::is_regular_file(root, unknown);
  if (file && !is_archive_name(root) && !dataset.data_files.empty())
    log_warning("{}: is a file, so data_files has no effect", root);
  if (listed)
    for (auto& name : *listed) add((fs::path(root) / name).string());
  else if (dataset.data_files.empty() || file) add(root);
  else
    for (auto& name : dataset.data_files) add(listed_path(name, root));
  if (dataset.data_files.empty()) std::sort(paths.begin(), paths.end());

  if (split != kWhole && !listed)
    for (auto& path : paths)
      if (ascii_lower(path).find(split) == std::string::npos && !select_split({path}, dataset).named)
        log_warning("{}: the whole file is used as split '{}'", path, split);
  std::vector<SourceFile> sources;
  for (auto& path : paths) sources.push_back(readable_source(path, dataset.ds_type));
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
  Omissions omissions;
  for (const DatasetEntry& part : entries_of_splits(dataset)) {
    const std::set<std::string> before = known;
    for (SourceFile& file : sources_of_split(part, omissions)) {
      if (before.contains(file.path)) continue;
      known.insert(file.path);
      sources.push_back(std::move(file));
    }
  }
  omissions.warn(known);
  return sources;
}

std::vector<SourceFile> find_all_sources(const std::string& folder) {
  const FolderListing found =
      list_folder(folder, [](const std::string& name) { return names_rows(name, false) || names_rows(name, true); });
  if (found.names.empty()) nothing_to_read(folder, ".json, .jsonl, .csv, .tsv, .parquet, .arrow, .txt or .md", found);
  Omissions omissions;
  omissions.add(folder, kUnread, found.unread, kUnreadAdvice);
  omissions.warn({});
  std::vector<SourceFile> sources;
  for (const std::string& name : found.names)
    sources.push_back(readable_source((fs::path(folder) / name).string(),
                                      names_rows(name, true) ? std::optional<std::string>("document") : std::nullopt));
  return sources;
}

}  // namespace dml
