// The loss over a whole list of examples, divided over the ranks and added up in the order of the micro-batches: the same
// bits on any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/loader.h"
#include "dist/comm.h"
#include "train/micro_batch_sums.h"

namespace dml {

/// What is passed over, and how.
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

/// The groups that a loss is divided into, none for no division.
struct DocumentGroups {
  std::size_t count = 0;
  /// The group of each document of a micro-batch, in their order.
  std::function<void(std::int64_t step, std::int64_t micro_batch, std::vector<std::int32_t>& groups)> of;
};

struct SplitLoss {
  MicroBatchSum all;
  std::vector<DocumentLoss> groups;  // as many as DocumentGroups counts
};

SplitLoss split_loss(const SplitPasses& passes, const DocumentGroups& groups = {});

}  // namespace dml
