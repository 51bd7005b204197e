// The loss over a whole list of examples, divided over the ranks and added up in the order of the micro-batches: the
// same bits on any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/loader.h"
#include "dist/comm.h"
#include "train/micro_batch_sums.h"

namespace dml {

/// The examples, and how they are evaluated.
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

/// The parts that a loss is divided into, by document; none for no division.
struct LossDivision {
  std::size_t count = 0;
  /// The part that each document of a micro-batch belongs to, in their order.
  std::function<void(std::int64_t step, std::int64_t micro_batch, std::vector<std::int32_t>& parts)> of;
};

struct SplitLoss {
  MicroBatchSum all;
  std::vector<DocumentLoss> parts;  // as many as LossDivision counts
};

SplitLoss split_loss(const SplitPasses& passes, const LossDivision& division = {});

}  // namespace dml
