// An entry of unfrozen_parameters: a regular expression that matches the beginning of tensor names, as in Axolotl, and
// optionally a range of rows: "model.embed_tokens.weight[:32000]". Either end of the range may be omitted.
#pragma once

#include <cstdint>
#include <string>

namespace dml {

struct RowPattern {
  std::string text;     // as in the recipe
  std::string pattern;  // without the rows
  bool ranged = false;
  std::int64_t first = 0, last = -1;  // rows [first, last); last = -1: to the end
};

/// Throws UserError for a malformed or empty range and for a pattern that does not compile.
RowPattern parse_row_pattern(const std::string& text);

}  // namespace dml
