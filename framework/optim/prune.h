// Resets most of the optimizer state at a restart of ReLoRA: of a parameter's state, the entries with the largest first
// plane (Adam's first moment) are kept, or a random share, or none.
//
// All planes of an entry are kept or pruned together. ReLoRA's authors prune each plane separately; a first moment can
// then remain without its second moment, and while the gradient is zero (that of A is, as long as B = 0) Adam divides
// it by almost zero.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/random.h"

namespace dml {

enum class PruneMethod { magnitude, random, reset };

/// A slice of a parameter's state in float32.
struct StateSlice {
  std::size_t parameter = 0;  // its index, the same on every rank
  std::int64_t first = 0,
               size = 0;  // index of the slice's first entry in the parameter; number of entries of the parameter
  std::vector<std::span<float>> planes;
};

/// Sums counts over all ranks that hold different slices.
using SumOverRanks = std::function<void(std::span<std::int64_t> counts)>;

/// Zeroes all entries except those whose magnitude in the first plane is above the `ratio`-quantile of the whole
/// parameter (as by torch.quantile and `>`), for parameters 0 … count − 1, of which this rank has the slices `mine`. A
/// collective call with 31 sums.
void prune_by_magnitude(std::span<const StateSlice> mine, std::size_t count, double ratio, const SumOverRanks& sum);
/// Zeroes each entry with probability `ratio`.
void prune_at_random(const StateSlice& slice, double ratio, const Random& random);

}  // namespace dml
