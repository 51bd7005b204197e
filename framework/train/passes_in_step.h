// Passes over micro-batches that ranks take in turn. Where values are sharded a pass is a collective, so every rank
// makes the same number: a rank without a micro-batch in the last round computes the last one, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dist/comm.h"

namespace dml {

/// Calls pass(m, own) for this rank's micro-batches m of `count`; `own` is false where another rank has the result.
template <class Pass>
void passes_in_step(const Comm& comm, std::int64_t count, Pass pass) {
  for (std::int64_t first = 0; first < count; first += comm.size()) {
    const std::int64_t mine = first + comm.rank();
    pass(std::min(mine, count - 1), mine < count);
  }
}

}  // namespace dml
