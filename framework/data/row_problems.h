// Which of the rows that cannot be read are reported: where a column is missing, all rows have the same problem.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dml {

/// The problems of the rows of a dataset, by their reason: the message without place, numbers and quoted values.
class RowProblems {
 public:
  /// `most`: how many rows of a reason are reported.
  explicit RowProblems(std::int64_t most) : most_(most) {}

  /// Counts a row; whether it is one of the first of its reason. `text` may begin with `place`.
  bool add(const std::string& place, const std::string& text);
  /// A line for each reason of which more rows were added, and begins anew: "rows.jsonl:1: 80 more rows have the same
  /// problem …", with the first row of the reason.
  std::vector<std::string> take_rest();

 private:
  struct Reason {
    std::string first;  // place
    std::int64_t rows = 0;
  };
  std::int64_t most_;
  std::vector<Reason> reasons_;
  std::map<std::string, std::size_t> known_;
};

}  // namespace dml
