// Which rank owns which part of a unit. Cuts lie at multiples of a fixed block, so that sums over blocks (the gradient
// norm) are the same however many ranks there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/arena.h"
#include "dist/strategy.h"
#include "dist/wire.h"

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

/// What is cut by itself: whole units, or their parts one after another.
struct Stretch {
  std::size_t unit = 0, part = 0;
  std::int64_t first = 0, size = 0;  // floats of the unit, from a multiple of kSliceBlock
};
std::vector<Stretch> whole_units(const ParameterStore& store);
std::vector<Stretch> unit_parts(const ParameterStore& store);
std::vector<std::int64_t> sizes_of(std::span<const Stretch> stretches);

/// Channels for the exchanges of a stretch; `place` tells those that may be under way at the same time apart.
inline constexpr int kChannelsPerUnit = 32, kFirstUnitChannel = 16;
inline constexpr std::size_t kMostStretches = 1000;  // channels end at 32767
inline int unit_channel(std::size_t stretch, std::size_t place) {
  return kFirstUnitChannel + static_cast<int>(stretch * kChannelsPerUnit + place);
}

inline std::span<std::byte> as_bytes(float* first, std::int64_t size) {
  return {reinterpret_cast<std::byte*>(first), static_cast<std::size_t>(size) * sizeof(float)};
}

/// Completes `whole` (unit_size floats) on every rank from the slices of all; this rank's is read from `own`, which may
/// lie in its place already. With a wire that packs, every slice is packed in its place, and so they arrive.
std::unique_ptr<Pending> gather_slices(Comm& comm, std::int64_t unit_size, float* own, float* whole,
                                       Operation operation, Wire wire = {});

/// The parameters' shares of a slice of every stretch. `state` provides the optimizer state (an arena that only counts
/// will do); values and gradients are bound by the strategy.
std::vector<Shard> cut_shards(const ParameterStore& store, std::span<const Stretch> stretches,
                              const std::function<Slice(const Stretch&)>& owned, const StateLayout& layout,
                              Arena& state);

/// Sum of squares over the gradients of all stretches, where `own(stretch)` is where this rank's slice of it lies. Blocks
/// are summed by their owner and the sums added in the order of the model on every rank.
double squared_norm(Comm& comm, std::span<const Stretch> stretches,
                    const std::function<const float*(std::size_t)>& own);

/// The first parameter with a gradient that is NaN or infinite, as "UNIT: NAME[offset] = value", the same on every
/// rank; empty when all are finite. A collective.
std::string first_not_finite_gradient(Comm& comm, const ParameterStore& store, std::span<const Shard> shards);

}  // namespace dml
