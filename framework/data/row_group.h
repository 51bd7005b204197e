// A few consecutive rows during their conversion to examples: the unit of work of one thread. Its memory is reused for
// later rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/builder.h"
#include "data/example.h"
#include "data/near_duplicates.h"
#include "data/phases.h"
#include "data/records.h"
#include "prompt/chat_template.h"

namespace dml {

struct RowResult {
  std::size_t examples = 0;      // number of the group's examples that come from this row
  std::string_view why_dropped;  // of dropped::; "" if it was kept
  std::string detail;
  TrainedEnds turns;
  bool cut = false;
  std::string left_out;  // Rendered::left_out
  SeenFields fields;
};

struct MadeExample {
  Example example;
  std::int64_t trained = 0;
  std::int64_t rejected_trained = 0;  // of these, those in the rejected document of a pair
  std::uint64_t hash = 0;             // of what is trained
  bool ends_trained = false;
  int bos = -1;                         // number of BOS tokens at the beginning; -1: the example does not start a text
  NearDuplicates::Signature signature;  // set if near duplicates are dropped
};

struct RowGroup {
  static constexpr std::size_t kRows = 16;

  std::vector<RawRow> raw{kRows};
  std::size_t rows = 0;  // of `raw` in use
  std::vector<RowResult> results;
  std::vector<MadeExample> examples;
  std::size_t made = 0;  // of `examples` in use
  PhaseSeconds seconds;

  /// Empties the group for other rows; frees the memory of very long rows.
  void clear();
};

/// Converts rows to examples: parses, renders, tokenizes, truncates. Thread-safe. Examples are swapped, not copied: the
/// argument of keep() holds other contents afterwards.
class RowWorker {
 public:
  RowWorker(const DataSection& data, const Tokenizer& tokenizer, const std::vector<Token>& ends);
  /// Fills the group's results from `raw`. A row that cannot be read is dropped with its error as detail.
  void work(const PlannedDataset& dataset, const RowReader& reader, RowGroup& group) const;

 private:
  struct Limits;
  struct Workspace;  // a thread's working memory, reused for every row
  void work(const PlannedDataset& dataset, const RowReader& reader, const RawRow& raw, Workspace& workspace,
            RowGroup& group) const;
  /// Converts a pair of documents from one record; both are truncated and dropped together.
  void pair(const std::vector<Rendered>& texts, const Limits& limits, Workspace& workspace, RowGroup& group) const;
  bool has_trained_tokens(const Example& answer) const;
  /// Cuts a document of preferences to length; false where the row was dropped, with its reason in the result.
  bool fit_answer(Example& example, const Limits& limits, RowResult& result) const;
  void set_numbers(const PlannedDataset& dataset, const Json& record, RowGroup& group, std::size_t made) const;
  void count_turns_left(RowGroup& group, std::size_t made) const;
  void tell_apart(const Json& record, RowGroup& group, std::size_t made) const;
  void fit(Example& example, std::int64_t trained, bool chunk, const Limits& limits, RowGroup& group) const;
  /// `begins`: the example starts its text.
  void keep(Example& example, std::int64_t trained, bool begins, const Limits& limits, RowGroup& group) const;

  const DataSection& data_;
  const Tokenizer& tokenizer_;
  const std::vector<Token>& ends_;
  std::vector<std::string> end_texts_;
};

}  // namespace dml
