// Drops examples that could be trained on: duplicates, near duplicates, and those whose scores (dml score) the recipe
// excludes. The reason names the other example or the score.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/near_duplicates.h"
#include "data/row_group.h"
#include "data/sources.h"

namespace dml {

class RowFilter {
 public:
  /// Reads the scores. UserError when they cannot be read. `data` outlives this object.
  explicit RowFilter(const DataSection& data);

  struct Refusal {
    std::string_view reason;  // of dropped::
    std::string detail;
  };
  /// Why the next example, from line `line` of the last of `sources`, is dropped; empty if it is kept. `validation`: it
  /// is of test_datasets, which come first: the training data lose what both have.
  std::optional<Refusal> refuses(const MadeExample& made, const std::vector<SourceFile>& sources, std::int64_t line,
                                 bool validation);
  /// UserError when there are scores and none of them matched a row, or when rows changed since they were scored.
  void finish() const;

 private:
  struct Origin {
    std::size_t source;
    std::int64_t line;
    bool validation;
  };
  // The scores of a row, which may have become several examples: each is judged by its own.
  struct Score {
    std::unordered_map<std::string, double> losses = {};  // by digest of the example
    double sum = 0, tokens = 0;                           // losses × trained tokens, and trained tokens
    int examples = 0;
  };
  std::optional<Refusal> by_score(const MadeExample& made, const std::string& place);

  const DataSection& data_;
  std::unordered_map<std::string, Score> scores_;   // by place
  std::unordered_map<std::uint64_t, Origin> seen_;  // by hash
  NearDuplicates near_;
  std::vector<Origin> remembered_;  // of near_
  bool found_ = false;
  std::int64_t changed_ = 0;   // examples that are not those that were scored
  std::string first_changed_;  // its place
};

}  // namespace dml
