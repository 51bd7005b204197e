// Exchange of the sums of micro-batches between ranks. Every rank gets all of them in the order of the micro-batches,
// so that sums have the same bits on any number of ranks.
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

/// The sum of all; `index` means nothing.
MicroBatchSum added_up(const std::vector<MicroBatchSum>& sums);

}  // namespace dml
