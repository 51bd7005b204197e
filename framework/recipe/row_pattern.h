// An entry of unfrozen_parameters: a regular expression over tensor names (matched at the start, as Axolotl does), and
// optionally rows: "model.embed_tokens.weight[:32000]". Either end of the rows may be left out.
#pragma once

#include <cstdint>
#include <string>

namespace dml {

struct RowPattern {
  std::string text;     // as the recipe has it
  std::string pattern;  // without the rows
  bool ranged = false;
  std::int64_t first = 0, last = -1;  // rows [first, last); -1: to the end
};

/// UserError for rows that are not numbers or an empty range, and for a pattern that does not compile.
RowPattern parse_row_pattern(const std::string& text);

}  // namespace dml
