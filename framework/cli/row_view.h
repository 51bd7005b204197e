// Prints rows of prepared data on the terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/inspect.h"
#include "data/scores.h"

namespace dml {

struct RowsShown {
  bool ids = false, json = false;
};

/// Prints rows with their masks, in color if standard output is a terminal and NO_COLOR is not set.
void show_rows(const Prepared& prepared, const Examples& examples, const std::vector<std::int64_t>& rows,
               const Tokenizer& tokenizer, const RowsShown& how);

/// The beginning of a line in the table of scores; `base`: the loss of the base, if the table has that column.
std::string score_columns(double loss, std::optional<double> base, double trained_tokens);
/// Prints a table of the first `most` of these rows: loss, base loss if two models were scored, trained tokens, place.
void print_scores(const std::vector<RowScore>& scores, const std::vector<std::size_t>& order, std::size_t most);

}  // namespace dml
