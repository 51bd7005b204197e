// Micro-batches for the math half: whole documents laid end to end, positions restarting, labels shifted inside each
// document. The last position of a document has no label, so nothing is learned across a seam.
#pragma once

#include <vector>

#include "core/packed_batch.h"
#include "data/examples.h"
#include "data/schedule.h"

namespace dml {

class Loader {
 public:
  /// Room for the largest micro-batch of the schedule is taken at once; later nothing is allocated.
  Loader(const Examples& examples, const Schedule& schedule);

  /// Micro-batch m of a step. Valid until the next call.
  PackedBatch load(std::int64_t global_step, std::int64_t m);
  /// These examples, in this order.
  PackedBatch load(std::span<const std::int32_t> chosen);

 private:
  Examples examples_;
  const Schedule& schedule_;
  std::vector<Token> tokens_, labels_;
  std::vector<std::int32_t> positions_, starts_;
};

}  // namespace dml
