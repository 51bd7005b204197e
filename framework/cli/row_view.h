// Rows of prepared data on the terminal.
#pragma once

#include <cstdint>
#include <vector>

#include "data/inspect.h"
#include "data/scores.h"

namespace dml {

/// Prints the rows with their masks: in colour where standard output is a terminal and NO_COLOR is not set.
void show_rows(const Prepared& prepared, const Examples& examples, const std::vector<std::int64_t>& rows,
               const Tokenizer& tokenizer, bool ids, bool json);

/// A table of the first `most` of these rows: loss, base, trained tokens, place.
void print_scores(const std::vector<RowScore>& scores, const std::vector<std::size_t>& order, std::size_t most);

}  // namespace dml
