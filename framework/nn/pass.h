// The data of one pass through the model that every block needs.
#pragma once

#include <cstdint>
#include <span>

#include "core/arena.h"
#include "core/packed_batch.h"
#include "kernels/gemm.h"
#include "kernels/rope.h"
#include "nn/hooks.h"
#include "nn/parameter.h"
#include "nn/router_losses.h"

namespace dml {

/// Rows of a call, and the adapter that they are computed with (Linear::adapters); −1: none.
struct AdapterRows {
  std::int64_t first = 0, count = 0;
  std::int32_t adapter = -1;
};

/// Documents with a common beginning, which is computed once; attention reads it in each of them.
struct SharedBeginnings {
  std::span<const std::int32_t> rows;    // of each row that attention sees, the computed one
  std::span<const std::int32_t> firsts;  // of each computed row, the first that attention sees of it
  std::span<const std::int32_t> starts;  // of the documents that attention sees, as PackedBatch::starts

  explicit operator bool() const { return !rows.empty(); }
};

struct Pass {
  const PackedBatch& batch;
  Arena& arena;                          // scratch; a block releases what it takes
  kernels::RopeAngles rope, rope_local;  // rope_local: sliding layers of families that have two
  bool training = false;                 // dropout is on
  std::uint64_t seed = 0;         // with micro_batch and the module's own number: the address of its dropout mask
  std::uint64_t micro_batch = 0;  // global number of the micro-batch since the start of training
  std::int64_t first_row =
      0;  // number of the first row of a block's input, where it works on some of the rows at a time
  kernels::Rows rows = kernels::Rows::packed;
  bool generates = false;                          // rows of several sequences, each with an adapter of its own or none
  std::span<const AdapterRows> adapters = {};      // of generation, in order; rows of none need not be listed
  std::span<const AdapterRows> end_adapters = {};  // of the rows that alone() is for
  bool low_memory = false;  // smaller blocks of work, where memory counts more than the last percent of speed
  UnitHooks* hooks = nullptr;
  RouterSums* routers = nullptr;  // sums for the router losses of mixtures of experts; null: not wanted
  bool base_alone = false;        // adapters are off
  SharedBeginnings shared = {};   // empty: documents share no beginning

  /// A copy of this pass for the last rows of every sequence, each of which is multiplied as a single row (Rows::dots).
  Pass alone() const {
    Pass other = *this;
    other.rows = kernels::Rows::dots;
    other.adapters = end_adapters;
    return other;
  }

  // For parameters with parts of their own; the values of all others are available between the hooks of their unit.
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
