// The rows of a Parquet file as JSON texts: records assembled from the repetition and definition levels of their
// columns (Dremel, Melnik et al. 2010). Lists and maps are recognized by their structure, since names differ between
// writers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/files.h"
#include "data/parquet/column.h"
#include "data/parquet/schema.h"
#include "data/table_rows.h"

namespace dml::parquet {

class Rows : public TableRows {
 public:
  /// UserError when the footer is malformed.
  explicit Rows(const std::string& path);

  /// The next row as a JSON object; false at the end. UserError naming row group, column and byte.
  bool next(std::string& row) override;
  std::int64_t count() const { return footer_.rows; }
  const Footer& footer() const { return footer_; }

 private:
  void open_group();
  void write_fields(const Node& node, std::string& out);
  void write(const Node& node, std::string& out);
  template <class Entry>
  void write_entries(const Node& node, std::string& out, Entry&& entry);
  void write_repeated(const Node& node, const Node* list, std::string& out);
  void write_map(const Node& map, std::string& out);
  void write_value(Column& column, std::string& out);
  bool is_present(const Node& node);
  bool row_continues(const Node& node);
  void skip(const Node& node);
  [[noreturn]] void too_large() const;

  MappedFile file_;
  Footer footer_;
  std::vector<Column> columns_;
  std::size_t group_ = 0;
  std::int64_t in_group_ = 0, row_ = 0;  // rows read of the open row group, of the file
  bool open_ = false;
};

}  // namespace dml::parquet
