#include "data/file_names.h"

#include <algorithm>
#include <filesystem>

#include "core/closest.h"
#include "core/error.h"
#include "core/row_file_names.h"
#include "core/text.h"
#include "data/dataset_card.h"
#include "data/path_pattern.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

// Words in the names of files and folders that stand for a split, as the library datasets reads them.
const std::vector<std::vector<std::string>>& split_words() {
  static const std::vector<std::vector<std::string>> words{
      {"train", "training"}, {"validation", "valid", "dev", "val"}, {"test", "testing", "eval", "evaluation"}};
  return words;
}

// Whether a name has a word between separators or digits: "data/wiki_test-00000.parquet" has "test".
bool has_word(const std::string& name, const std::string& word) {
  const auto ends = [&](std::size_t at) {
    return at >= name.size() || std::string_view("-._ /0123456789").find(name[at]) != std::string_view::npos;
  };
  for (std::size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1))
    if ((at == 0 || ends(at - 1)) && ends(at + word.size())) return true;
  return false;
}

bool is_named_after(const std::string& split, const std::string& path) {
  const std::string name = ascii_lower(path);
  if (name.starts_with(split) || name.find("/" + split) != name.npos || has_word(name, split)) return true;
  return std::ranges::any_of(split_words(), [&](const auto& words) {
    return std::ranges::count(words, split) > 0 &&
           std::ranges::any_of(words, [&](const std::string& word) { return has_word(name, word); });
  });
}

bool is_named_after_another(const std::string& split, const std::string& path) {
  const std::string name = ascii_lower(path);
  return std::ranges::any_of(split_words(), [&](const auto& words) {
    return std::ranges::count(words, split) == 0 &&
           std::ranges::any_of(words, [&](const std::string& word) { return has_word(name, word); });
  });
}

// What map() and filter() of the library datasets leave beside the Arrow files that they read: "cache-" and a
// fingerprint.
bool is_cache_of_map(const std::string& name) {
  constexpr std::size_t kBegin = 6, kFingerprint = 16;
  return name.starts_with("cache-") && name.ends_with(".arrow") &&
         name.find_first_not_of("0123456789abcdef", kBegin) >= kBegin + kFingerprint;
}

// A file by its name; of a folder the files below it: files of rows, those named after the split where there are any.
std::vector<std::string> files_at(const std::string& path, const DatasetEntry& dataset,
                                  const std::vector<std::string>& files) {
  if (std::ranges::count(files, path) > 0) return {path};
  std::string below = path;
  if (!below.empty() && !below.ends_with('/')) below += '/';
  std::vector<std::string> names;
  for (const std::string& file : files) {
    if (!file.starts_with(below)) continue;
    const std::string rest = file.substr(below.size());
    const bool hidden = rest.starts_with('.') || rest.find("/.") != rest.npos;
    if (!hidden && names_rows(file, asks_for_documents(dataset))) names.push_back(rest);
  }
  take_texts_beside_rows(names, dataset);
  std::vector<std::string> out;
  for (const std::string& name : select_split(names, dataset).files) out.push_back(below + name);
  return out;
}

std::vector<std::string> files_of_pattern(const std::string& given, const DatasetEntry& dataset,
                                          const std::vector<std::string>& files) {
  const std::string pattern = given.starts_with("./") ? given.substr(2) : given;
  std::vector<std::string> out = files_at(pattern, dataset, files);
  if (out.empty())
    std::ranges::copy_if(files, std::back_inserter(out),
                         [&](const std::string& file) { return fits_pattern(pattern, file); });
  if (out.empty()) throw UserError("{}: no file matches '{}'{}", dataset.path, given, did_you_mean(given, files));
  return out;
}

}  // namespace

bool names_rows(const std::string& path, bool documents) {
  // What the library datasets writes beside its Arrow files.
  static const std::vector<std::string> descriptions{"dataset_info.json", "dataset_infos.json", "dataset_dict.json",
                                                     "state.json"};
  const std::string name = std::filesystem::path(path).filename().string();
  return has_row_extension(path, documents) && std::ranges::count(descriptions, name) == 0 && !is_cache_of_map(name);
}

std::vector<std::string> take_texts_beside_rows(std::vector<std::string>& names, const DatasetEntry& dataset) {
  const std::string type = ascii_lower(dataset.ds_type.value_or(""));
  const auto is_text = [](const std::string& name) {
    const std::string extension = row_extension(name);
    return extension == ".txt" || extension == ".text";
  };
  if (type == "text" || type == "txt" || type == "document" || std::ranges::all_of(names, is_text)) return {};
  std::vector<std::string> texts;
  std::ranges::copy_if(names, std::back_inserter(texts), is_text);
  std::erase_if(names, is_text);
  return texts;
}

bool asks_for_documents(const DatasetEntry& dataset) {
  return dataset.ds_type && ascii_lower(*dataset.ds_type) == "document";
}

std::string split_of(const DatasetEntry& dataset) {
  return ascii_lower(dataset.split.substr(0, dataset.split.find('[')));
}

std::vector<DatasetEntry> entries_of_splits(const DatasetEntry& dataset) {
  if (dataset.split.find('+') == std::string::npos) return {dataset};
  if (dataset.split.find('[') != std::string::npos)
    throw UserError("{}: split '{}': slices cannot be added up; make each one an entry of datasets", dataset.path,
                    dataset.split);
  std::vector<DatasetEntry> out;
  for (std::size_t begin = 0; begin <= dataset.split.size();) {
    const std::size_t end = std::min(dataset.split.find('+', begin), dataset.split.size());
    out.push_back(dataset);
    out.back().split = dataset.split.substr(begin, end - begin);
    std::erase(out.back().split, ' ');
    if (out.back().split.empty())
      throw UserError("{}: split '{}' must look like train+test", dataset.path, dataset.split);
    begin = end + 1;
  }
  return out;
}

FilesOfSplit select_split(const std::vector<std::string>& names, const DatasetEntry& dataset) {
  const std::string split = split_of(dataset);
  FilesOfSplit out;
  std::vector<std::string> others;
  for (const std::string& name : names) {
    if (is_named_after(split, name)) out.files.push_back(name);
    else (is_named_after_another(split, name) ? out.left_out : others).push_back(name);
  }
  out.named = !out.files.empty();
  if (out.named) {
    out.left_out.clear();
    if (split == "train") out.unnamed = std::move(others);
    return out;
  }
  if (asks_for_documents(dataset) || others.empty()) return {names, {}, {}, false};
  out.files = std::move(others);
  return out;
}

std::vector<std::string> wanted_files(const DatasetEntry& dataset, const std::string& folder,
                                      const std::vector<std::string>& files) {
  std::vector<std::string> out;
  if (const std::vector<DatasetEntry> parts = entries_of_splits(dataset); parts.size() > 1) {
    for (const DatasetEntry& part : parts)
      std::ranges::move(wanted_files(part, folder, files), std::back_inserter(out));
    std::ranges::sort(out);
    out.erase(std::ranges::unique(out).begin(), out.end());
    return out;
  }
  auto add = [&](const std::vector<std::string>& more) { out.insert(out.end(), more.begin(), more.end()); };
  for (const std::string& pattern : dataset.data_files)
    if (!std::filesystem::path(pattern).is_absolute()) add(files_of_pattern(pattern, dataset, files));
  if (!dataset.data_files.empty()) return out;
  if (const auto listed = files_of_card(folder, dataset.name, split_of(dataset), files)) {
    if (listed->size() > 1) return *listed;
    for (const std::string& path : *listed) add(files_at(path, dataset, files));  // may be a directory
    return out;
  }
  add(files_at(dataset.name.value_or(""), dataset, files));
  if (dataset.name && out.empty())
    throw UserError("{}: has no subdirectory '{}' (name: {})", dataset.path, *dataset.name, *dataset.name);
  return out;
}

}  // namespace dml
