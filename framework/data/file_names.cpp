#include "data/file_names.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "core/closest.h"
#include "core/error.h"
#include "data/dataset_card.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

// A file by its name; of a folder the files below it: files of rows, those named after the split where there are any.
std::vector<std::string> files_at(const std::string& path, const DatasetEntry& dataset,
                                  const std::vector<std::string>& files) {
  if (std::ranges::count(files, path) > 0) return {path};
  std::string below = path;
  if (!below.empty() && !below.ends_with('/')) below += '/';
  std::vector<std::string> out, named;
  for (const std::string& file : files) {
    if (!file.starts_with(below)) continue;
    const std::string rest = file.substr(below.size());
    const bool hidden = rest.starts_with('.') || rest.find("/.") != rest.npos;
    if (hidden || !names_rows(file, asks_for_documents(dataset))) continue;
    out.push_back(file);
    if (named_after(split_of(dataset), rest)) named.push_back(file);
  }
  return named.empty() ? out : named;
}

std::vector<std::string> files_of_pattern(const std::string& given, const DatasetEntry& dataset,
                                          const std::vector<std::string>& files) {
  const std::string pattern = given.starts_with("./") ? given.substr(2) : given;
  std::vector<std::string> out = files_at(pattern, dataset, files);
  if (out.empty())
    std::ranges::copy_if(files, std::back_inserter(out), [&](const std::string& file) {
      return fnmatch(pattern.c_str(), file.c_str(), FNM_PATHNAME) == 0;
    });
  if (out.empty()) throw UserError("{}: no file fits '{}'{}", dataset.path, given, did_you_mean(given, files));
  return out;
}

}  // namespace

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(c < 128 ? std::tolower(c) : c); });
  return text;
}

std::string row_extension(const std::string& path) {
  std::filesystem::path p(lower_case(path));
  if (p.extension() == ".gz" || p.extension() == ".zst") p = p.stem();
  return p.extension().string();
}

bool names_rows(const std::string& path, bool documents) {
  static const std::vector<std::string> texts{".txt", ".text", ".md", ".markdown", ".rst"},
      rows{".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".text", ".parquet", ".arrow"};
  return std::ranges::count(documents ? texts : rows, row_extension(path)) > 0;
}

bool asks_for_documents(const DatasetEntry& dataset) {
  return dataset.ds_type && lower_case(*dataset.ds_type) == "document";
}

std::string split_of(const DatasetEntry& dataset) {
  return lower_case(dataset.split.substr(0, dataset.split.find('[')));
}

bool named_after(const std::string& split, const std::string& path) {
  const std::string stem = lower_case(path);
  return stem.starts_with(split) || stem.find("/" + split) != std::string::npos;
}

std::vector<std::string> wanted_files(const DatasetEntry& dataset, const std::string& folder,
                                      const std::vector<std::string>& files) {
  std::vector<std::string> out;
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
