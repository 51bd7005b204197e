// The files of a dataset entry and the form of their rows. Each file states how its form was determined.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dml {

struct DatasetEntry;  // recipe/recipe.h

/// `document`: a whole text file is one row (a very long one is split at blank lines).
enum class RowForm { json_lines, json_array, csv, text, document, parquet, arrow };
const char* name_of(RowForm form);
/// Whether the file is a table of columns instead of text.
inline bool is_table(RowForm form) { return form == RowForm::parquet || form == RowForm::arrow; }

struct SourceFile {
  std::string path;  // or "ARCHIVE::MEMBER"
  RowForm form = RowForm::json_lines;
  std::string reason;    // "extension .jsonl"
  char delimiter = ',';  // of CSV; a tab in a .tsv file

  /// The place of a row in messages: "FILE:17" by its first line; "FILE, row 17" in a JSON array, whose rows may share
  /// a line, and in a table.
  std::string place(std::int64_t number) const;
};

/// The files of an entry (file, folder, archive, glob, data_files), sorted by name; at least one. UserError when a file
/// is missing (naming the nearest file), has an unsupported format (naming a way to convert it), or a pattern matches
/// nothing.
std::vector<SourceFile> find_sources(const DatasetEntry& dataset);
/// All files of a folder that can be read, of any split; a text file is one document. UserError when there is none.
std::vector<SourceFile> find_all_sources(const std::string& folder);

}  // namespace dml
