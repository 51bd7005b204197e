// The rows of a dataset that are used: after `skip`, the slice in `split`, then one shard of it, then at most max_rows.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sources.h"

namespace dml {

struct RowRange {
  std::int64_t begin = 0, end = INT64_MAX;  // of all rows of the dataset's files, counted from 0
  std::int64_t most = INT64_MAX;
  std::int64_t shards = 1, shard = 0;

  bool takes(std::int64_t row) const { return row >= begin && row < end && (row - begin) % shards == shard; }
};

/// The row range of an entry. Reads the files once if the slice is in percent. UserError for contradictory settings.
RowRange rows_of(const DatasetEntry& entry, const std::vector<SourceFile>& files);

}  // namespace dml
