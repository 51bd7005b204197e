// The loss over a whole list of examples, shared out over the ranks and added up in the order of the micro-batches: the
// same bits on any number of ranks.
#pragma once

#include <cstdint>
#include <functional>

#include "data/loader.h"
#include "dist/comm.h"
#include "model/causal_lm.h"

namespace dml {

struct SplitLoss {
  double sum = 0;
  std::int64_t tokens = 0, learned = 0;
  double mean() const { return learned > 0 ? sum / static_cast<double>(learned) : 0; }
};

/// `each(done, total)` is called after each micro-batch of this rank.
SplitLoss split_loss(CausalLm& model, Loader& loader, const Schedule& schedule, Comm& comm, UnitHooks& hooks,
                     const std::function<void(std::int64_t, std::int64_t)>& each = {});

}  // namespace dml
