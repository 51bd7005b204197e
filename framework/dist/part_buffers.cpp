#include "dist/part_buffers.h"

namespace dml {
namespace {

constexpr std::int64_t kChunks = 8;  // of an embedding or head that has little room to receive into

std::int64_t whole_blocks(std::int64_t floats) { return round_up(floats, kShardBlock); }

}  // namespace

PartBuffers::PartBuffers(const ParameterStore& store, int ranks, bool receive) {
  const std::vector<Unit>& units = store.units();
  auto largest_shard = [&](std::int64_t floats) { return whole_blocks(ceil_div(whole_blocks(floats), ranks)); };
  std::int64_t layer = 0;
  for (std::size_t u = 1; u + 1 < units.size(); ++u) layer = std::max(layer, whole_blocks(units[u].parts[0].size()));
  const std::int64_t first = whole_blocks(units.front().parts[0].size()),
                     last = units.size() > 1 ? whole_blocks(units.back().parts[0].size()) : 0,
                     end = std::max(first, last), small = whole_blocks(ceil_div(largest_shard(end), kChunks));
  const bool together = store.embedding_and_head_share_buffer;
  const std::int64_t layers_at = together ? 0 : first + last, layer_room = layers_at + 2 * layer,
                     layer_chunk = together ? largest_shard(layer) : std::max(largest_shard(layer), small),
                     others = receive ? ranks - 1 : 0;
  whole_ = together ? std::max(end, 2 * layer) : layer_room;
  floats_ =
      together ? std::max(end + others * small, layer_room + others * layer_chunk) : layer_room + others * layer_chunk;
  std::int64_t part = 0;
  for (const Unit& unit : units)
    for (std::size_t p = 1; p < unit.parts.size(); ++p) part = std::max(part, whole_blocks(unit.parts[p].size()));
  const std::int64_t parts_at = floats_, part_room = parts_at + 2 * part, part_shard = largest_shard(part);
  std::int64_t buffer = 0, taken = 0, received = 0;  // the buffer being filled, and its floats used so far
  others_ = others;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const bool is_end = u == 0 || u + 1 == units.size();
    const std::int64_t at = !is_end              ? layers_at + static_cast<std::int64_t>(u % 2) * layer
                            : together || u == 0 ? 0
                                                 : first;
    buffers_.push_back({at, at + units[u].parts[0].size(), layer_room, layer_chunk});
    if (is_end && together) buffers_.back().room = end, buffers_.back().chunk = small;
    for (std::size_t p = 1; p < units[u].parts.size(); ++p) {
      const std::int64_t size = units[u].parts[p].size(), shard = largest_shard(size);
      if (taken + whole_blocks(size) > part || received + shard > part_shard) {
        buffer = 1 - buffer;
        taken = received = 0;
      }
      const std::int64_t start = parts_at + buffer * part + taken;
      buffers_.push_back({start, start + size, part_room + others * (buffer * part_shard + received), shard});
      taken += whole_blocks(size);
      received += shard;
    }
  }
  whole_ += 2 * part;
  floats_ = part_room + 2 * others * part_shard;
}

bool PartBuffers::exchanges_collide(std::size_t a, std::size_t b) const {
  auto meet = [](std::int64_t first, std::int64_t last, std::int64_t other_first, std::int64_t other_last) {
    return first < other_last && other_first < last;
  };
  const Buffer &x = buffers_[a], &y = buffers_[b];
  const std::int64_t x_end = x.room + others_ * x.chunk, y_end = y.room + others_ * y.chunk;
  return meet(x.first, x.last, y.first, y.last) || meet(x.room, x_end, y.room, y_end) ||
         meet(x.first, x.last, y.room, y_end) || meet(x.room, x_end, y.first, y.last);
}

}  // namespace dml
