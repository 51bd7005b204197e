// What ranks tell each other about their micro-batches. Everybody gets all of them in the order of the micro-batches, so
// that sums have the same bits on any number of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "dist/comm.h"

namespace dml {

struct MicroBatchSum {
  std::int64_t index = 0, tokens = 0, learned = 0;
  double loss = 0;  // sum over the learned tokens
};

std::vector<MicroBatchSum> gather_sums(Comm& comm, std::vector<MicroBatchSum> mine);

}  // namespace dml
