// Builds the arrays of a prepared folder from rows: reads, renders, tokenizes, filters and writes them. Rows are read
// in order, processed in parallel block by block and written in order, so the bytes do not depend on the number of
// threads, and at most three blocks are in memory: one is processed while the next is read and the previous one is
// written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/phases.h"
#include "data/report.h"
#include "data/sources.h"
#include "data/tensor_file.h"
#include "prompt/strategy.h"
#include "tokenizer/tokenizer.h"

namespace dml {

struct DataSection;  // recipe/recipe.h
struct DatasetEntry;

struct PlannedDataset {
  const DatasetEntry* entry = nullptr;
  std::string key;  // of the recipe: "datasets.0"
  bool validation = false;
  std::vector<SourceFile> files;
  std::unique_ptr<PromptStrategy> strategy;
};

struct Built {
  DataReport report;
  PhaseSeconds seconds;
  std::vector<SourceFile> sources;  // as source_file counts them
  std::vector<WrittenFile> files;   // by name
};

using DroppedSink = std::function<void(const DroppedRow&)>;

/// How much of the data a check reads, and who is told of dropped rows.
struct CheckLimits {
  std::int64_t rows = INT64_MAX;          // of each dataset
  std::size_t bytes = SIZE_MAX;           // of the rows of each dataset; the row that exceeds it is the last one read
  bool all_datasets = true;               // false: some are missing, so the splits are not checked
  const DroppedSink* dropped = nullptr;   // called with every dropped row, in order
  std::int64_t same_problem = INT64_MAX;  // reported rows of a dataset with the same problem; the others are counted
};

/// The findings of a check besides problems.
struct DataCheck {
  std::vector<std::string>
      possible_problems;  // errors that a full preparation would report if the unread rows resemble those read
  std::vector<std::string> partial;  // datasets of which only the first rows were read: "rows.jsonl: 2,000 rows"
  DataReport report;
  /// Number of tokens of each example, in training and validation order; empty unless every row was read and none is
  /// rejected.
  std::vector<std::int32_t> train_lengths, validation_lengths;
  std::int64_t problems = 0;  // also of rows that were only counted
};

using ProblemSink = std::function<void(const Problem&)>;

/// Reads, renders and tokenizes like build_arrays(), but writes nothing. Passes everything that build_arrays() would
/// reject to `problem`, in the order of the rows.
DataCheck check_rows(const DataSection& data, std::uint64_t seed, const Tokenizer& tokenizer,
                     const std::vector<PlannedDataset>& datasets, const std::vector<Token>& ends,
                     const CheckLimits& limits, const ProblemSink& problem);

/// Writes every file except the manifest into `folder`. `ends` are the tokens that may end a text (EOS, end-of-turn).
/// UserError on bad rows (unless they are to be skipped), when every row of a dataset was dropped, or when more than
/// half of its rows have no trained tokens.
Built build_arrays(const DataSection& data, std::uint64_t seed, const Tokenizer& tokenizer,
                   const std::vector<PlannedDataset>& datasets, const std::vector<Token>& ends,
                   const std::string& folder);

}  // namespace dml
