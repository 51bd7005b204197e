// Which rank owns which part of a unit. Cuts lie at multiples of a fixed block, so that sums over blocks (the gradient
// norm) are the same however many ranks there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/arena.h"
#include "dist/strategy.h"

namespace dml {

inline constexpr std::int64_t kSliceBlock = 1024;  // floats

struct Slice {
  std::int64_t first = 0, last = 0;  // floats from the start of the unit
  std::int64_t size() const { return last - first; }
};

inline Slice slice_of(std::int64_t unit_size, int rank, int ranks) {
  std::int64_t blocks = (unit_size + kSliceBlock - 1) / kSliceBlock;
  auto cut = [&](int r) { return std::min(unit_size, blocks * r / ranks * kSliceBlock); };
  return {cut(rank), cut(rank + 1)};
}

/// The parameters' shares of a slice of every unit. `state` provides the optimizer state (an arena that only counts will
/// do); values and gradients are bound by the strategy.
std::vector<Shard> cut_shards(const ParameterStore& store, const std::function<Slice(const Unit&)>& owned,
                              int state_floats, Arena& state);

/// Sum of squares over all units' gradients, where `own(unit)` is where this rank's slice of it lies. Blocks are summed
/// by their owner and the sums added in the order of the units on every rank.
double squared_norm(Comm& comm, const ParameterStore& store, const std::function<const float*(std::size_t)>& own);

/// The first parameter with a gradient that is NaN or infinite, as "UNIT: NAME[offset] = value", the same on every rank;
/// empty when all are finite. A collective.
std::string first_not_finite_gradient(Comm& comm, const ParameterStore& store, std::span<const Shard> shards);

}  // namespace dml
