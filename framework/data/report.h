// Statistics of the rows: how many were kept or dropped and why, how many tokens are trained. Computed while preparing
// and stored in the manifest, so that a run from the cache reports the same.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "data/examples.h"

namespace dml {

/// Reasons for dropping a row or a part of it.
namespace dropped {
inline constexpr std::string_view kEmptyRow = "a row of CSV or TSV without a value";
inline constexpr std::string_view kBadRow = "could not be read";
inline constexpr std::string_view kTooLong = "longer than sequence_len";
inline constexpr std::string_view kNoRoomToAnswer = "longer than sequence_len less trl.max_completion_length";
inline constexpr std::string_view kTooShort = "shorter than min_sample_len";
inline constexpr std::string_view kNothingTrained = "no trained tokens";
inline constexpr std::string_view kDuplicate = "duplicate";
inline constexpr std::string_view kNearDuplicate = "near duplicate";
inline constexpr std::string_view kByScore = "excluded by scores";
inline constexpr std::string_view kWeightZero = "weight 0";
inline constexpr std::string_view kEqualAnswers = "chosen and rejected are equal";
inline constexpr std::string_view kEmptyAnswer = "an answer is empty";
inline constexpr std::string_view kEqualOnceCut = "chosen and rejected are equal once cut to sequence_len";
inline constexpr std::string_view kPromptTooLong = "the prompt alone fills sequence_len";
}  // namespace dropped

struct DroppedRow {
  std::string place, reason, detail;  // FILE:LINE
};

struct DatasetReport {
  std::string name, format;        // path; the strategy's description
  std::vector<std::string> files;  // each with its form and the reason for it
  bool validation = false;
  std::int64_t rows = 0;  // read, after skip, shards and max_rows; without empty rows
  std::int64_t examples = 0, tokens = 0, trained = 0;
  double weight = 1;
  std::int64_t used = 0;  // times that an epoch trains one of the examples, by weight and without the validation split
  std::int64_t ends_expected = 0,
               ends_trained = 0;  // examples that contain the end of their text; those whose last label is an end token
  std::int64_t turns = 0, turns_ended = 0;  // trained ranges; those that end with a trained end token
  std::int64_t truncated = 0;               // examples that were truncated at sequence_len
  std::int64_t cut_documents = 0;           // documents that became several examples
  std::int64_t longest = 0;
  std::int64_t fused = 0;                     // examples with a token that spans the boundary of prompt and answer
  std::int64_t without_bos = 0, two_bos = 0;  // examples that do not begin with BOS; that begin with several
  std::int64_t chosen_tokens = 0, rejected_tokens = 0;  // trained tokens of the answers of pairs
  std::int64_t pairs = 0, desirable = 0, undesirable = 0;
  std::string bos;                               // text of the tokenizer's BOS; "" if it has none
  std::map<std::string, std::int64_t> dropped;   // reason → rows
  std::vector<DroppedRow> first_dropped;         // at most kShown
  std::map<std::string, std::int64_t> left_out;  // role whose messages the template does not write → rows
  std::vector<std::string> unused_fields;        // named by the dataset, and in no row: "field_weight: w"

  static constexpr std::size_t kShown = 10;
};

/// Warnings of what rows hold and is not read, and of what the recipe names and no row has.
std::vector<std::string> field_warnings(const DatasetReport& report);

struct DataReport {
  /// Examples of 2^i … 2^(i+1)-1 tokens.
  static constexpr int kBuckets = 24;

  std::vector<DatasetReport> datasets;
  std::array<std::int64_t, kBuckets> lengths{};
  std::int64_t train_examples = 0, validation_examples = 0;
  std::int64_t duplicates = 0;  // examples that equal another one of the same split
  std::int64_t leaked = 0;      // validation examples that are in the training data, too
  bool all_leaked = false;      // the training data has no other examples

  std::int64_t total(std::int64_t DatasetReport::*member) const;
  /// The summary, one line per statement.
  std::vector<std::string> lines() const;
  /// Warnings, each with the remedy.
  std::vector<std::string> warnings() const;
};

Json to_json(const DataReport& report);
/// Reads a report back. UserError naming `source` when something is missing.
DataReport report_from_json(const Json& json, const std::string& source);

/// 1234567 → "1 234 567".
std::string grouped(std::int64_t n);
/// "1 row", "1 234 rows".
std::string counted(std::int64_t n, std::string_view one, std::string_view many);

/// UserError when a dataset has no rows (`file`: its first file), when all of them were dropped, or when most of them
/// have no trained tokens.
void check_rows_used(const DatasetReport& dataset, const std::string& file);
/// UserError when there are no examples, saying how many rows were dropped and why.
void check_examples_left(const DataReport& report, std::int64_t examples);
/// UserError when the training examples are labeled answers of one kind only. `kinds`: of all stored examples.
void check_answer_kinds(const DataReport& report, std::span<const std::int32_t> train,
                        std::span<const ExampleKind> kinds);

}  // namespace dml
