// The ownership of parts by ranks. Ranks divide every part (nn/parameter.h) separately; strategies that do not bind
// parts divide whole units.
//
//   part             [  1024  |  1024  |  1024  |  1024  |  rest ]      blocks of 1024 floats
//   shards, 2 ranks  [     rank 0      |         rank 1          ]
//   shards, 4 ranks  [ rank 0 | rank 1 | rank 2 |     rank 3     ]
//
// Sums over blocks (for the gradient norm) do not depend on the number of ranks. A Shard (dist/strategy.h) is the part
// of such a range that lies in one parameter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/arena.h"
#include "core/rounding.h"
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
  std::int64_t blocks = ceil_div(size, kShardBlock);
  auto cut = [&](int r) { return std::min(size, blocks * r / ranks * kShardBlock); };
  return {cut(rank), cut(rank + 1)};
}

/// A part, or a whole unit, that ranks divide among them.
struct PartRef {
  std::size_t unit = 0, part = 0;
  std::int64_t first = 0, size = 0;  // range of the unit in floats; first is a multiple of kShardBlock
};
std::vector<PartRef> whole_units(const ParameterStore& store);
/// The parts of all units, one after another.
std::vector<PartRef> unit_parts(const ParameterStore& store);
std::vector<std::int64_t> sizes_of(std::span<const PartRef> parts);
/// For each unit, the index of its first part; the last entry is the number of parts.
std::vector<std::size_t> first_parts(std::span<const PartRef> parts);

/// Channels for the exchanges of a part; `use` distinguishes those that may be in flight at the same time.
inline constexpr int kChannelsPerPart = 32, kFirstPartChannel = 16;
inline constexpr std::size_t kMaxParts = 1000;  // channels end at 32767
inline int part_channel(std::size_t part, std::size_t use) {
  return kFirstPartChannel + static_cast<int>(part * kChannelsPerPart + use);
}

/// All values of a unit whose values are bound as a whole.
inline std::span<std::byte> unit_bytes(const ParameterStore& store, const Unit& unit) {
  return {unit.value.data, static_cast<std::size_t>(unit.size * store.value_width())};
}
/// Binds the values of a shard to `at`, in the dtype of the store.
void bind_values(Shard& shard, const ParameterStore& store, std::byte* at);
/// Sets elements [first, first + values.size()) of a shard's values.
void set_values(const Shard& shard, std::int64_t first, std::span<const float> values);

/// Gathers `whole` (`size` floats) on every rank from the shards of all ranks. This rank's shard is read from `own`,
/// which may be its range of `whole`. If the wire packs, shards are packed in place and arrive packed.
std::unique_ptr<Pending> gather_shards(Comm& comm, std::int64_t size, float* own, float* whole, Operation operation,
                                       Wire wire);
/// Like gather_shards(), for values of `width` bytes each.
std::unique_ptr<Pending> gather_value_shards(Comm& comm, std::int64_t size, std::int64_t width, std::byte* own,
                                             std::byte* whole, Operation operation);

/// The shards of a rank that owns the range `owned(part)` of each part. `state` allocates the optimizer state (it may
/// be a measuring arena); the strategy binds values and gradients.
std::vector<Shard> cut_shards(const ParameterStore& store, std::span<const PartRef> parts,
                              const std::function<ShardRange(const PartRef&)>& owned, const StateLayout& layout,
                              Arena& state);

/// Sum of squares of the gradients of all parts; `own(part)` points to this rank's shard of a part. Blocks are summed
/// by their owner, and every rank adds the sums in the order of the model.
double squared_norm(Comm& comm, std::span<const PartRef> parts, const std::function<const float*(std::size_t)>& own);

}  // namespace dml
