#include "core/row_file_names.h"

#include <algorithm>
#include <array>

#include "core/text.h"

namespace dml {
namespace {

constexpr std::array<std::string_view, 10> kRows{".json", ".jsonl", ".jsonlines", ".ndjson",  ".csv",
                                                 ".tsv",  ".txt",   ".text",      ".parquet", ".arrow"};
constexpr std::array<std::string_view, 5> kDocuments{".txt", ".text", ".md", ".markdown", ".rst"};
constexpr std::array<std::string_view, 5> kCompressed{".gz", ".zst", ".xz", ".bz2", ".lz4"};
constexpr std::array<std::string_view, 10> kArchives{".zip",  ".tar",    ".tar.gz", ".tgz",     ".tar.zst",
                                                     ".tzst", ".tar.xz", ".txz",    ".tar.bz2", ".tbz2"};

// As std::filesystem has it: none for ".json", whose dot begins the name.
std::string_view extension_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  return dot == name.npos || dot == 0 ? std::string_view() : name.substr(dot);
}

}  // namespace

std::string row_extension(std::string_view path) {
  const std::string lower = ascii_lower(path);
  const std::string_view last = extension_of(lower);
  const bool compressed = std::ranges::find(kCompressed, last) != kCompressed.end();
  return std::string(compressed ? extension_of(std::string_view(lower).substr(0, lower.size() - last.size())) : last);
}

bool has_row_extension(std::string_view path, bool documents) {
  const std::string extension = row_extension(path);
  return documents ? std::ranges::find(kDocuments, extension) != kDocuments.end()
                   : std::ranges::find(kRows, extension) != kRows.end();
}

bool has_unread_extension(std::string_view path) {
  const std::string_view last = extension_of(path);
  return !has_row_extension(path) && has_row_extension(path.substr(0, path.size() - last.size()));
}

bool is_archive_name(std::string_view path) {
  const std::string lower = ascii_lower(path);
  return std::ranges::any_of(kArchives, [&](std::string_view ending) { return lower.ends_with(ending); });
}

}  // namespace dml
