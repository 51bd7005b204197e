// The loss over a whole list of examples, divided over the ranks and added up in the order of the micro-batches: the same
// bits on any number of ranks.
#pragma once

#include <cstdint>
#include <functional>

#include "data/loader.h"
#include "dist/comm.h"
#include "train/micro_batch_sums.h"

namespace dml {

/// `each(done, total)` is called after each micro-batch of this rank.
MicroBatchSum split_loss(CausalLm& model, Objective& objective, Loader& loader, const Schedule& schedule, Comm& comm,
                         UnitHooks& hooks, const std::function<void(std::int64_t, std::int64_t)>& each = {});

}  // namespace dml
