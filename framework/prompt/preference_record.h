// Where a preference format finds its texts in a record.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace dml {

/// A place in a record: the first of some columns that the record has, and in it, perhaps, a message of a list.
struct FieldPath {
  std::vector<std::string> columns;
  int message = -1;  // content of this message of the list in the column; −1: the column itself is the text

  /// "prompt|input", "chosen[1].content"
  static FieldPath parse(const std::string& text);
  /// UserError when it is missing or no text.
  std::string text(const Json& record) const;
  std::string name() const;
};

/// The answer's label, as a boolean or 0 and 1. UserError on anything else.
bool label_column(const Json& record, const std::string& column);

}  // namespace dml
