// The differences of two prepared folders: in the settings they were made from, and in the examples of each row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/prepared.h"

namespace dml {

struct RowChange {
  std::string place;  // FILE:LINE
  std::string what;   // "120 tokens, 40 trained → 131 tokens, 51 trained"
};

struct Difference {
  static constexpr std::size_t kShown = 10;

  std::vector<std::string> inputs;  // "sequence_len: 512 → 1024"
  std::int64_t same = 0, other_tokens = 0, other_labels = 0, moved = 0, gone = 0, fresh = 0;
  std::vector<RowChange> first;  // at most kShown of each kind of change

  std::vector<std::string> lines() const;
  Json json() const;
};

/// Compares two prepared folders. Rows are identified by file and line; if a row became several examples, they are
/// compared one by one.
Difference compare(const Prepared& before, const Prepared& after);

}  // namespace dml
