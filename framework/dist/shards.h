// Which rank owns what. Ranks share every part (nn/parameter.h) by itself; where parts are not bound one by one, whole
// units.
//
//   part             [  1024  |  1024  |  1024  |  1024  |  rest ]      blocks of 1024 floats
//   shards, 2 ranks  [     rank 0      |         rank 1          ]
//   shards, 4 ranks  [ rank 0 | rank 1 | rank 2 |     rank 3     ]
//
// Sums over blocks (the gradient norm) are the same however many ranks there are. A Shard (dist/strategy.h) is what
// such a range holds of one parameter.
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

inline constexpr std::int64_t kShardBlock = 1024;  // floats

struct ShardRange {
  std::int64_t first = 0, last = 0;  // floats from the start of the part
  std::int64_t size() const { return last - first; }
};

/// The range that a rank owns of a part of `size` floats.
inline ShardRange shard_range(std::int64_t size, int rank, int ranks) {
  std::int64_t blocks = (size + kShardBlock - 1) / kShardBlock;
  auto cut = [&](int r) { return std::min(size, blocks * r / ranks * kShardBlock); };
  return {cut(rank), cut(rank + 1)};
}

/// A part that ranks share, or a whole unit.
struct PartRef {
  std::size_t unit = 0, part = 0;
  std::int64_t first = 0, size = 0;  // floats of the unit, from a multiple of kShardBlock
};
std::vector<PartRef> whole_units(const ParameterStore& store);
/// The parts of all units, one after another.
std::vector<PartRef> unit_parts(const ParameterStore& store);
std::vector<std::int64_t> sizes_of(std::span<const PartRef> parts);
/// By unit: the number of its first part; and after the last unit, how many parts there are.
std::vector<std::size_t> first_parts(std::span<const PartRef> parts);

/// Channels for the exchanges of a part; `use` tells those that may be under way at the same time apart.
inline constexpr int kChannelsPerPart = 32, kFirstPartChannel = 16;
inline constexpr std::size_t kMostParts = 1000;  // channels end at 32767
inline int part_channel(std::size_t part, std::size_t use) {
  return kFirstPartChannel + static_cast<int>(part * kChannelsPerPart + use);
}

/// All values of a unit that has them bound whole.
inline std::span<std::byte> unit_bytes(const ParameterStore& store, const Unit& unit) {
  return {unit.value.data, static_cast<std::size_t>(unit.size * store.value_width())};
}
/// Binds the values of a shard to their place in memory, in the form of the store.
void bind_values(Shard& shard, const ParameterStore& store, std::byte* at);
/// Sets elements [first, first + values.size()) of a shard's values.
void set_values(const Shard& shard, std::int64_t first, std::span<const float> values);

/// Completes `whole` (`size` floats) on every rank from the shards of all; this rank's is read from `own`, which may be
/// where it belongs in `whole`. With a wire that packs, every shard is packed where it is, and so they arrive.
std::unique_ptr<Pending> gather_shards(Comm& comm, std::int64_t size, float* own, float* whole, Operation operation,
                                       Wire wire);
/// The same for values, of `width` bytes each.
std::unique_ptr<Pending> gather_value_shards(Comm& comm, std::int64_t size, std::int64_t width, std::byte* own,
                                             std::byte* whole, Operation operation);

/// The shards of a rank that owns the range `owned(part)` of each part. `state` provides the optimizer state (an arena
/// that only counts will do); values and gradients are bound by the strategy.
std::vector<Shard> cut_shards(const ParameterStore& store, std::span<const PartRef> parts,
                              const std::function<ShardRange(const PartRef&)>& owned, const StateLayout& layout,
                              Arena& state);

/// Sum of squares over the gradients of all parts, where `own(part)` is where this rank's shard of it lies. Blocks are
/// summed by their owner and the sums added in the order of the model on every rank.
double squared_norm(Comm& comm, std::span<const PartRef> parts, const std::function<const float*(std::size_t)>& own);

/// The first parameter with a gradient that is NaN or infinite, as "UNIT: NAME[offset] = value", the same on every
/// rank; empty when all are finite. A collective.
std::string first_not_finite_gradient(Comm& comm, const ParameterStore& store, std::span<const Shard> shards);

}  // namespace dml
