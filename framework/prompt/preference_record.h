// Locates the texts of a preference format in a record.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"

namespace dml {

/// A place in a record: the first of several columns that the record has and, optionally, a message of the list in it.
struct FieldPath {
  std::vector<std::string> columns;
  int message = -1;  // index of a message in the column's list; −1: the column itself is the text

  /// Parses "prompt|input" or "chosen[1].content", also without ".content". UserError for anything else in brackets.
  static FieldPath parse(const std::string& text);
  bool in(const Json& record) const;
  /// The text. UserError when it is missing or not a string.
  std::string text(const Json& record) const;
  std::string name() const;
};

/// The answer's label: a boolean, or 0 or 1. UserError for anything else.
bool label_column(const Json& record, const std::string& column);

}  // namespace dml
