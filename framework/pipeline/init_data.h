// dml init: examines data: files, format, the role of each column. It makes no choices; findings come with text for the
// user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "recipe/recipe.h"

namespace dml {

/// The caller's hints, which override the guesses from the columns.
struct ColumnHints {
  std::vector<std::string> user;  // several: instruction and its input
  std::optional<std::string> assistant, system, text;
  bool chosen_only = false;  // preference pairs: train on the chosen answers as ordinary data
  bool empty() const { return user.empty() && !assistant && !system && !text; }
};

enum class DataKind { conversations, documents, tokens };

struct DataFacts {
  DatasetEntry entry;  // the dataset entry for the recipe
  DataKind kind = DataKind::conversations;
  Rl rl = Rl::none;      // dpo for pairs of answers, kto for answers with a label
  std::string files;     // "faq.csv: CSV, its name ends in .csv, with semicolons between the columns"
  std::string contents;  // "user: Question, assistant: Answer"
  std::vector<std::string> notes;
  std::int64_t rows = 0;  // of all files; an estimate if `rows_estimated`
  bool rows_estimated = false;
  std::size_t bytes = 0;     // of all files as stored
  std::vector<Json> sample;  // rows sampled evenly from those that were read
};

/// UserError when nothing can be read, or when no column appears to hold text; it lists the columns.
DataFacts examine_data(const std::string& path, const ColumnHints& hints);

}  // namespace dml
