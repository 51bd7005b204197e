// Sequential reading of a table file: rows as JSON texts.
#pragma once

#include <cstddef>
#include <string>

namespace dml {

class TableRows {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;  // of a row as JSON

  virtual ~TableRows() = default;
  /// The next row as a JSON object; false at the end. UserError naming the place in the file.
  virtual bool next(std::string& row) = 0;
};

}  // namespace dml
