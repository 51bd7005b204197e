// Exchanges the sums of micro-batches between ranks. Every rank receives all of them in the order of the micro-batches,
// so their total has the same bits for any number of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "dist/comm.h"
#include "train/objective.h"

namespace dml {

struct MicroBatchSum {
  std::int64_t index = 0, tokens = 0, trained_tokens = 0;
  LossSums losses = {};
};

std::vector<MicroBatchSum> gather_sums(Comm& comm, std::vector<MicroBatchSum> mine);

/// The total of `sums`, added in order; its `index` is meaningless.
MicroBatchSum added_up(const std::vector<MicroBatchSum>& sums);

}  // namespace dml
