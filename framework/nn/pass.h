// What every block needs to know about the current pass through the model.
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

class PackedWeights;

/// A range of rows and the index of their adapter in Linear::adapters; −1: none.
struct AdapterRows {
  std::int64_t first = 0, count = 0;
  std::int32_t adapter = -1;
};

/// Documents with a common prefix, which is computed once. Attention sees it in each of these documents.
struct SharedPrefixes {
  std::span<const std::int32_t> rows;  // for each row that attention sees, the computed row
  std::span<const std::int32_t>
      firsts;  // for each computed row, its first occurrence among the rows that attention sees
  std::span<const std::int32_t> starts;  // PackedBatch::starts of the documents that attention sees

  explicit operator bool() const { return !rows.empty(); }
};

struct Pass {
  const PackedBatch& batch;
  Arena& arena;                          // scratch memory; a block releases what it takes
  kernels::RopeAngles rope, rope_local;  // rope_local: sliding layers of families that have two
  bool training = false;                 // dropout is on
  std::uint64_t seed = 0;                // with micro_batch and the module's number, the address of its dropout mask
  std::uint64_t micro_batch = 0;         // global number of the micro-batch since the start of training
  std::int64_t first_row = 0;  // index of the first row of a block's input, if a block is given a chunk of the rows
  kernels::RowMethod rows = kernels::RowMethod::packed;
  bool generates = false;                      // generation: rows of several sequences, each with or without an adapter
  std::span<const AdapterRows> adapters = {};  // generation: the rows with an adapter, in order
  std::span<const AdapterRows> last_row_adapters = {};  // … of the rows of for_last_rows()
  bool low_memory = false;                              // use smaller blocks: less memory, slightly slower
  UnitHooks* hooks = nullptr;
  RouterSums* routers = nullptr;    // accumulates the router losses of mixtures of experts; null: not wanted
  bool base_only = false;           // adapters are disabled
  SharedPrefixes shared = {};       // empty: no shared prefixes
  PackedWeights* packed = nullptr;  // copies that products read; null: they pack weights themselves

  /// A copy of this pass for the last rows of every sequence, which are multiplied one by one (RowMethod::dots).
  Pass for_last_rows() const {
    Pass other = *this;
    other.rows = kernels::RowMethod::dots;
    other.adapters = last_row_adapters;
    return other;
  }

  // Call the hooks of a parameter with its own parts; other parameters are available between the hooks of their unit.
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
