// What every block needs to know about one walk over the model.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/packed_batch.h"
#include "kernels/gemm.h"
#include "kernels/rope.h"
#include "nn/hooks.h"
#include "nn/parameter.h"
#include "nn/router_losses.h"

namespace dml {

struct Pass {
  const PackedBatch& batch;
  Arena& arena;                          // scratch; whatever a block takes it gives back
  kernels::RopeAngles rope, rope_local;  // rope_local: sliding layers of families that have two
  bool training = false;                 // dropout is on
  std::uint64_t seed = 0;         // with micro_batch and the module's own number: the address of its dropout mask
  std::uint64_t micro_batch = 0;  // global number of the micro-batch since the start of training
  std::int64_t first_row = 0;     // of what a block is given, where it works on some of the rows at a time
  kernels::Rows rows = kernels::Rows::by_count;
  bool sparing = false;           // smaller blocks of work, where memory counts more than the last percent of speed
  UnitHooks* hooks = nullptr;
  RouterSums* routers = nullptr;  // what mixtures of experts lose by their choices; null where nobody asks

  /// The same, for rows that are multiplied each for itself.
  Pass alone() const {
    Pass other = *this;
    other.rows = kernels::Rows::dots;
    return other;
  }

  // For parameters with parts of their own; the others' are there as long as their unit is visited.
  void need(const ParameterRef& p, int direction) const {
    if (hooks && p.part > 0) hooks->before_values(p.unit->number, p.part, direction);
  }
  void begin_gradient(const ParameterRef& p) const {
    if (hooks && p.part > 0) hooks->before_part_gradient(p.unit->number, p.part);
  }
  void end_gradient(const ParameterRef& p) const {
    if (p.part == 0) return;
    mask_gradient(*p.unit, p.part);
    if (hooks) hooks->after_part_gradient(p.unit->number, p.part);
  }
};

}  // namespace dml
