// Rows become the arrays of a prepared folder: read, rendered, tokenised, filtered, written. Rows are read in order,
// worked on in parallel block by block and written in order, so the bytes do not depend on the number of threads and
// memory is bounded by three blocks: while one is worked on, the next is read and the one before it is written.
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

/// Limits of the data that a check reads.
struct CheckLimits {
  std::int64_t rows = INT64_MAX;  // of each dataset
  std::size_t bytes = SIZE_MAX;   // of rows of each dataset; the row that exceeds it is the last one
};

/// Findings of a check other than problems.
struct DataCheck {
  std::vector<std::string> doubts;   // errors of a full preparation if unread rows are like those that were read
  std::vector<std::string> partial;  // datasets of which only the first rows were read: "rows.jsonl: 2,000 rows"
  DataReport report;
  /// Tokens of each example in the order of training and validation; empty unless every row was read and none is
  /// refused.
  std::vector<std::int32_t> train_lengths, validation_lengths;
};

using ProblemSink = std::function<void(const Problem&)>;

/// Reads, renders and tokenises as build_arrays() does and writes nothing. Everything that build_arrays() would refuse
/// goes to `problem`, one call each, in the order of the rows.
DataCheck check_rows(const DataSection& data, std::uint64_t seed, const Tokenizer& tokenizer,
                     const std::vector<PlannedDataset>& datasets, const std::vector<Token>& ends,
                     const CheckLimits& limits, const ProblemSink& problem);

/// Writes every file but the manifest into `folder`. `ends` are the tokens a text may end with (eos, eot).
/// UserError on bad rows (unless they are to be skipped), when every row of a dataset was dropped, or more than half of
/// its rows have no trained tokens.
Built build_arrays(const DataSection& data, std::uint64_t seed, const Tokenizer& tokenizer,
                   const std::vector<PlannedDataset>& datasets, const std::vector<Token>& ends,
                   const std::string& folder);

}  // namespace dml
