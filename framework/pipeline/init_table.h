// The columns of sampled rows, with the kinds of values in each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace dml {

struct SampledColumn {
  std::string name, plain;              // as in the data; normalized by plain_name()
  std::int64_t texts = 0, filled = 0;   // texts, and those that are not blank
  std::int64_t scalars = 0;             // numbers, true and false
  std::int64_t lists = 0, objects = 0;  // lists of objects, single objects
  std::int64_t list_texts = 0;          // texts that are JSON of such lists
  std::int64_t labels = 0, others = 0;  // true, false, 0 or 1; other numbers
};

/// Normalizes a name: "Question Text" and "question-text" become question_text.
std::string plain_name(const std::string& column);
/// The list that a text holds as JSON, as tables store one; any other value as it is.
Json list_in(const Json& value);
/// In the order in which the rows have them.
std::vector<SampledColumn> columns_of(const std::vector<Json>& rows);
std::vector<std::string> names_of(const std::vector<SampledColumn>& columns);

}  // namespace dml
