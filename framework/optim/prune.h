// Taking away most of an optimizer's memory where training begins anew from new values (ReLoRA): what is kept of a
// parameter's state are the entries whose first plane (Adam's mean of the gradient) is largest, a random share, or
// nothing.
//
// All planes of an entry go or stay together. ReLoRA's authors choose for each plane by itself; then a mean stays whose
// square is gone, and where the gradient is zero at first – A's is, while B = 0 – Adam divides it by next to nothing.
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
  std::size_t parameter = 0;         // a number, the same on every rank
  std::int64_t first = 0, size = 0;  // entry of the parameter with which the slice begins; entries of the parameter
  std::vector<std::span<float>> planes;
};

/// Adds up the numbers of all ranks that hold different slices.
using SumOverRanks = std::function<void(std::span<std::int64_t> counts)>;

/// Zeroes all entries but those whose size in the first plane is above the `ratio`-quantile of the whole parameter's
/// (as torch.quantile and `>` choose them), for parameters 0 … count − 1 of which this rank has `mine`. A collective of
/// 31 sums.
void prune_by_magnitude(std::span<const StateSlice> mine, std::size_t count, double ratio, const SumOverRanks& sum);
/// Zeroes each entry with probability `ratio`.
void prune_at_random(const StateSlice& slice, double ratio, const Random& random);

}  // namespace dml
