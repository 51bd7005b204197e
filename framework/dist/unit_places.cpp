#include "dist/unit_places.h"

namespace dml {
namespace {

constexpr std::int64_t kPieces = 8;  // of an end that has little room to receive into

std::int64_t whole_blocks(std::int64_t floats) { return (floats + kSliceBlock - 1) / kSliceBlock * kSliceBlock; }

}  // namespace

UnitPlaces::UnitPlaces(const ParameterStore& store, int ranks, bool receive) {
  const std::vector<Unit>& units = store.units();
  // The largest slice of a rank.
  auto slice = [&](std::int64_t floats) { return whole_blocks((whole_blocks(floats) + ranks - 1) / ranks); };
  std::int64_t layer = 0;
  for (std::size_t u = 1; u + 1 < units.size(); ++u) layer = std::max(layer, whole_blocks(units[u].parts[0].size()));
  const std::int64_t first = whole_blocks(units.front().parts[0].size()),
                     last = units.size() > 1 ? whole_blocks(units.back().parts[0].size()) : 0,
                     end = std::max(first, last), small = whole_blocks((slice(end) + kPieces - 1) / kPieces);
  const bool together = store.ends_take_turns;
  const std::int64_t layers_at = together ? 0 : first + last, layer_room = layers_at + 2 * layer,
                     layer_piece = together ? slice(layer) : std::max(slice(layer), small),
                     others = receive ? ranks - 1 : 0;
  whole_ = together ? std::max(end, 2 * layer) : layer_room;
  floats_ =
      together ? std::max(end + others * small, layer_room + others * layer_piece) : layer_room + others * layer_piece;
  std::int64_t part = 0;
  for (const Unit& unit : units)
    for (std::size_t p = 1; p < unit.parts.size(); ++p) part = std::max(part, whole_blocks(unit.parts[p].size()));
  const std::int64_t parts_at = floats_, part_room = parts_at + 2 * part;
  std::int64_t at_place = 0, taken = 0, received = 0;  // which of the two is being filled, and how far
  others_ = others;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const bool is_end = u == 0 || u + 1 == units.size();
    const std::int64_t at = !is_end              ? layers_at + static_cast<std::int64_t>(u % 2) * layer
                            : together || u == 0 ? 0
                                                 : first;
    places_.push_back({at, at + units[u].parts[0].size(), layer_room, layer_piece});
    if (is_end && together) places_.back().room = end, places_.back().piece = small;
    for (std::size_t p = 1; p < units[u].parts.size(); ++p) {
      const std::int64_t size = units[u].parts[p].size(), piece = slice(size);
      if (taken + whole_blocks(size) > part || received + piece > slice(part)) {
        at_place = 1 - at_place;
        taken = received = 0;
      }
      const std::int64_t place = parts_at + at_place * part + taken;
      places_.push_back({place, place + size, part_room + others * (at_place * slice(part) + received), piece});
      taken += whole_blocks(size);
      received += piece;
    }
  }
  whole_ += 2 * part;
  floats_ = part_room + 2 * others * slice(part);
}

}  // namespace dml
