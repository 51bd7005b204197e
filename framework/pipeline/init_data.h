// dml init: examines data: files, format, the role of each column. Makes no choices; findings come with texts for the
// user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "recipe/recipe.h"

namespace dml {

/// Hints of the caller that override the guesses from the columns.
struct ColumnHints {
  std::vector<std::string> user;  // several: instruction and its input
  std::optional<std::string> assistant, system, text;
  bool chosen_only = false;  // pairs of answers: train on the chosen ones as on any others
  bool empty() const { return user.empty() && !assistant && !system && !text; }
};

enum class DataKind { conversations, documents, tokens };

struct DataFacts {
  DatasetEntry entry;  // how a recipe reads it
  DataKind kind = DataKind::conversations;
  Rl rl = Rl::none;      // dpo for pairs of answers, kto for answers with a label
  std::string files;     // "faq.csv: CSV, its name ends in .csv, with semicolons between the columns"
  std::string contents;  // "user: Question, assistant: Answer"
  std::vector<std::string> notes;
  std::int64_t rows = 0;  // of all files; an estimate where `rows_estimated`
  bool rows_estimated = false;
  std::size_t bytes = 0;     // of all files as stored
  std::vector<Json> sample;  // rows, evenly spread over those that were read
};

/// UserError when nothing can be read, and when no column can be told to hold text (with what there is).
DataFacts look_at_data(const std::string& path, const ColumnHints& hints);

}  // namespace dml
