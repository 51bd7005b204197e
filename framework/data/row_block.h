// The unit in which rows go from the file to the arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <vector>

#include "core/parallel.h"
#include "data/phases.h"
#include "data/row_group.h"

namespace dml {

// Rows that are read, processed or written together. Groups beyond `used` keep their memory for reuse.
struct RowBlock {
  std::vector<RowGroup> groups;
  // The size of a block: small enough for its rows and tokens to stay in the cache, large enough to keep all threads
  // busy.
  static constexpr std::size_t kGroupsPerThread = 8, kBytes = std::size_t{4} << 20;
  std::size_t used = 0, rows = 0, bytes = 0;
  std::size_t most_rows = RowGroup::kRows * kGroupsPerThread * static_cast<std::size_t>(std::max(1, threads()));
  std::exception_ptr failure;  // the error that ended reading after these rows
  PhaseSeconds seconds;        // of reading

  bool empty() const { return rows == 0 && !failure; }
  bool full() const { return rows >= most_rows || bytes >= kBytes; }
  RawRow& slot() {
    if (used == 0 || groups[used - 1].rows == RowGroup::kRows) {
      if (used == groups.size()) groups.emplace_back();
      groups[used++].clear();
    }
    return groups[used - 1].raw[groups[used - 1].rows];
  }
  void take() {
    bytes += slot().text.size();
    ++groups[used - 1].rows;
    ++rows;
  }
  void clear() {
    used = rows = bytes = 0;
    failure = nullptr;
    seconds = {};
  }
};

}  // namespace dml
