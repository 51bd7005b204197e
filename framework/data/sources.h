// The files of a dataset entry and the form of their rows. Each file states how its form was determined.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dml {

struct DatasetEntry;  // recipe/recipe.h

/// `document`: a whole text file is a row (a very long one becomes several, cut at blank lines).
enum class RowForm { json_lines, json_array, csv, tsv, text, document, parquet, arrow };
const char* name_of(RowForm form);
/// Rows of columns, not of text.
inline bool is_table(RowForm form) { return form == RowForm::parquet || form == RowForm::arrow; }

struct SourceFile {
  std::string path;  // or "ARCHIVE::MEMBER"
  RowForm form = RowForm::json_lines;
  std::string reason;    // "extension .jsonl"
  char delimiter = ',';  // of CSV

  /// The place of a row in messages: "FILE:17" by its first line; "FILE, row 17" in a JSON array, whose rows may share
  /// a line, and in a table.
  std::string place(std::int64_t number) const;
};

/// Files of an entry (file, folder, archive, glob, data_files), sorted by name, at least one. UserError when a file is
/// missing (with the nearest name beside it), of a form we cannot read (with the way to convert it), or a pattern fits
/// nothing.
std::vector<SourceFile> find_sources(const DatasetEntry& dataset);

}  // namespace dml
