#include "pipeline/init_data.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "data/records.h"
#include "data/sources.h"
#include "pipeline/init_columns.h"

namespace dml {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = std::size_t{256} << 20, kSampleRows = 2000;

// Whether a text file is prose in paragraphs, which is one document. Long lines are one document each.
bool is_prose(const SourceFile& file) {
  RowReader reader(file);
  RawRow row;
  std::int64_t lines = 0, characters = 0, last = 0;
  while (lines < 2000 && reader.next(row)) {
    ++lines;
    characters += static_cast<std::int64_t>(row.text.size());
    last = row.line;
  }
  const std::int64_t blank = last - lines;  // the reader skips blank lines
  return lines > 0 && (blank * 50 > lines || characters < 200 * lines);
}

std::vector<SourceFile> find_files(DatasetEntry& entry) {
  std::error_code error;
  if (fs::is_directory(entry.path, error)) {
    std::vector<SourceFile> found;
    try {
      found = find_sources(entry);
    } catch (const UserError&) {  // only Markdown files, or none
    }
    if (std::ranges::any_of(found, [](auto& file) { return file.form != RowForm::text; })) return found;
    entry.ds_type = "document";
    return find_sources(entry);
  }
  std::vector<SourceFile> files = find_sources(entry);
  if (std::ranges::all_of(files, [](auto& f) { return f.form == RowForm::text && is_prose(f); })) {
    entry.ds_type = "document";
    files = find_sources(entry);
  }
  return files;
}

std::string describe_files(const std::string& path, const std::vector<SourceFile>& files) {
  std::string form = name_of(files[0].form);
  for (auto& f : files)
    if (name_of(f.form) != form) form = "files of several kinds";
  if (files[0].delimiter == ';') form += " with semicolons between the columns";
  if (files[0].delimiter == '\t') form += " with tabs between the columns";
  if (files.size() == 1)
    return fmt::format("{}: {}", path, files[0].form == RowForm::document ? "text, one document" : form);
  return fmt::format("{}: {} files, {}", path, files.size(),
                     files[0].form == RowForm::document ? "each a document" : form);
}

// Reads up to kReadBytes; of these rows every n-th is kept, n growing so that at most kSampleRows are.
void sample_rows(const std::vector<SourceFile>& files, DataFacts& facts) {
  std::error_code error;
  for (auto& f : files) facts.bytes += static_cast<std::size_t>(fs::file_size(f.path, error));
  std::size_t read = 0;
  std::int64_t stride = 1, bad = 0;
  std::string first_bad;
  for (auto& file : files) {
    if (read >= kReadBytes) break;
    RowReader reader(file);
    RawRow row;
    while (read < kReadBytes && reader.next(row)) {
      read += row.text.size() + 1;
      if (facts.rows++ % stride != 0) continue;
      Json record;
      try {
        reader.parse(row, record);
      } catch (const UserError& e) {
        if (++bad == 1) first_bad = e.what();
        continue;
      }
      facts.sample.push_back(std::move(record));
      if (facts.sample.size() < kSampleRows) continue;
      std::vector<Json> half;
      for (std::size_t i = 0; i < facts.sample.size(); i += 2) half.push_back(std::move(facts.sample[i]));
      facts.sample = std::move(half);
      stride *= 2;
    }
  }
  if (read >= kReadBytes && facts.bytes > read) {
    facts.rows = static_cast<std::int64_t>(static_cast<double>(facts.rows) * static_cast<double>(facts.bytes) /
                                           static_cast<double>(read));
    facts.rows_estimated = true;
  }
  if (facts.sample.empty()) throw UserError("{}", first_bad.empty() ? files[0].path + ": no rows" : first_bad);
  if (bad > 0)
    facts.notes.push_back(fmt::format("{} of the sampled rows cannot be read, the first: {}", bad, first_bad));
}

}  // namespace

DataFacts examine_data(const std::string& path, const ColumnHints& hints) {
  DataFacts facts;
  facts.entry.path = path;
  std::vector<SourceFile> files = find_files(facts.entry);
  facts.files = describe_files(path, files);
  sample_rows(files, facts);
  detect_columns(facts, hints);
  return facts;
}

}  // namespace dml
