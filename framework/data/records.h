// Reads the rows of a file as raw text with their line numbers, in bounded memory. Parsing is separate, so that many
// threads can do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/byte_stream.h"
#include "data/sources.h"
#include "data/table_rows.h"

namespace dml {

struct RawRow {
  std::string text;
  std::int64_t line = 0;  // first line of the row, from 1; in a JSON array or a table, the row number
  bool unended = false;   // the last line of a file that does not end in a newline
  bool empty = false;     // a row of CSV or TSV without a value
};

class RowReader {
 public:
  static constexpr std::size_t kLargestRow = std::size_t{8} << 20, kMaxValues = std::size_t{1} << 19;
  /// A document is split at the first blank line after this many bytes, blank lines included, at the latest at the
  /// first line break after four times as many.
  static constexpr std::size_t kLongDocument = std::size_t{1} << 20;

  /// Rows without a value are skipped unless `empty_rows`.
  explicit RowReader(const SourceFile& source, bool empty_rows = false);
  /// Reads the next row; false at the end. UserError "FILE:LINE: …" when rows cannot be separated.
  bool next(RawRow& row);
  /// Parses a row into `record`, reusing its memory. UserError "FILE:LINE: …". Thread-safe.
  void parse(const RawRow& row, Json& record) const;
  std::string place(const RawRow& row) const;

 private:
  int peek();
  int take();
  bool next_line(RawRow& row);
  bool next_element(RawRow& row);
  bool next_delimited(RawRow& row);
  bool next_document(RawRow& row);
  void append(RawRow& row, const char* bytes, std::size_t size) const;
  std::vector<std::string> fields(const RawRow& row) const;

  SourceFile source_;
  bool empty_rows_;
  std::unique_ptr<ByteStream> stream_;
  std::unique_ptr<TableRows> table_;  // instead of the stream
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t line_ = 1, elements_ = 0;
  bool inside_ = false, finished_ = false;  // of a JSON array
  std::vector<std::string> header_;         // of CSV and TSV
};

}  // namespace dml
