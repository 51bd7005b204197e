// The loss over a whole split, evaluated on all ranks and added up in the order of the micro-batches: the same bits for
// any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/loader.h"
#include "dist/comm.h"
#include "train/micro_batch_sums.h"

namespace dml {

/// The split, and the objects that evaluate it.
struct SplitPasses {
  CausalLm& model;
  Objective& objective;
  Loader& loader;
  const Schedule& schedule;
  Comm& comm;
  UnitHooks& hooks;
  /// Called after each micro-batch of this rank.
  std::function<void(std::int64_t done, std::int64_t total)> each = [](std::int64_t, std::int64_t) {};
};

/// Divides a loss into `count` parts by document; no division if count is 0.
struct LossDivision {
  std::size_t count = 0;
  /// Sets the part that each document of a micro-batch belongs to, in the order of the documents.
  std::function<void(std::int64_t step, std::int64_t micro_batch, std::vector<std::int32_t>& parts)> of;
};

struct SplitLoss {
  MicroBatchSum all;
  std::vector<DocumentLoss> parts;  // as many as LossDivision counts
};

SplitLoss split_loss(const SplitPasses& passes, const LossDivision& division = {});

}  // namespace dml
