// What every block needs to know about one walk over the model.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/packed_batch.h"
#include "kernels/rope.h"

namespace dml {

struct Pass {
  const PackedBatch& batch;
  Arena& arena;                         // scratch; whatever a block takes it gives back
  kernels::RopeTable rope, rope_local;  // rope_local: sliding layers of families that have two
  bool training = false;                // dropout is on
  std::uint64_t seed = 0;               // with micro_batch and the module's own number: the address of its dropout mask
  std::uint64_t micro_batch = 0;        // global number of the micro-batch since the start of training
  std::int64_t first_row = 0;           // of what a block is given, where it works on some of the rows at a time
  bool sparing = false;  // smaller blocks of work, where memory counts more than the last percent of speed
};

}  // namespace dml
