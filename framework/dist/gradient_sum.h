// Gradients of a rank's contiguous micro-batches, and their exchange, overlapped with the last backward pass (ddp,
// zero1).
//
// Full gradient buffers form the stack of the tree (dist/gradient_tree.h). When a unit's gradient of the last
// micro-batch is final, it is handed to the reduction over ranks (dist/reduction.h).
//
// Without the tree (gradient_tree: false, to save memory in full fine-tuning) a rank accumulates its micro-batches in a
// single buffer, and these buffers are the leaves of a tree over ranks: the bits then depend on the number of ranks.
#pragma once

#include <vector>

#include "core/arena.h"
#include "dist/reduction.h"
#include "dist/strategy.h"

namespace dml {

class GradientSum {
 public:
  GradientSum(Comm& comm, ParameterStore& store, Reduction::Sums sums, const DistributionOptions& options);

  void begin_step(MicroBatches mine, std::int64_t total);
  void begin_micro_step(std::int64_t index);
  /// Call when the unit's gradient of the current micro-batch is final.
  void unit_ready(std::size_t unit);
  void poll() { reduction_.poll(); }
  /// Waits for all exchanges. sum(unit) then holds the sums: this rank's shard of them, or all.
  void finish();
  float* sum(std::size_t unit) const { return slots_[0][unit]; }
  void end_step();
  std::span<const std::span<bf16>> residuals() const { return residuals_.units(); }

  /// Bytes held by the rank that holds most, if shares are equal and contiguous.
  static DistributionStrategy::Memory memory(const ParameterStore& store, int ranks,
                                             std::int64_t micro_batches_per_rank, const DistributionOptions& options);

 private:
  void reserve();
  void reduce_unit(std::size_t unit);

  ParameterStore& store_;
  int rank_;
  bool tree_;
  Residuals residuals_;
  Reduction reduction_;

  MicroBatches mine_;
  std::int64_t micro_step_ = -1;  // index in this rank's share
  TreeSchedule schedule_;
  Arena gradients_;
  std::vector<std::vector<float*>> slots_;  // [slot][unit]
  std::vector<bool> ready_;
};

}  // namespace dml
