// Where what is gathered, or summed up, lies in a memory that holds only a little of it at a time.
//
// Of the units' first parts, the first and the last unit's have a place each, those of the layers between take two in turn, so
// that a neighbour can be on its way while a layer is in use. Where the ends are never needed together nor beside a layer
// (ParameterStore::ends_take_turns), the ends' place and the layers' are the same memory: whoever comes next waits until the one
// before it is done. All other parts fill two places more in turn, each as large as the
// largest of them: as many as fit of those that follow one another.
//
// For gradients there is room to receive into as well. A layer's gradient is exchanged at once; an end whose part does not fit
// goes piece by piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dist/slices.h"
#include "nn/parameter.h"

namespace dml {

class UnitPlaces {
 public:
  struct Place {
    std::int64_t first = 0, last = 0;  // floats of the memory
    std::int64_t room = 0;             // where others' parts are received, `piece` floats of each
    std::int64_t piece = 0;            // at most so much of every rank's slice is exchanged at once
  };
  UnitPlaces() = default;
  /// For every part of every unit, in the order of unit_parts(). `ranks` share each; `receive`: with room for the others'.
  UnitPlaces(const ParameterStore& store, int ranks, bool receive);

  const Place& operator[](std::size_t stretch) const { return places_[stretch]; }
  bool overlap(std::size_t a, std::size_t b) const {
    return places_[a].first < places_[b].last && places_[b].first < places_[a].last;
  }
  /// Whether the gradients of both, exchanged at the same time, would lie in the same floats somewhere.
  bool exchanges_collide(std::size_t a, std::size_t b) const {
    auto meet = [](std::int64_t first, std::int64_t last, std::int64_t other_first, std::int64_t other_last) {
      return first < other_last && other_first < last;
    };
    const Place &x = places_[a], &y = places_[b];
    const std::int64_t x_end = x.room + others_ * x.piece, y_end = y.room + others_ * y.piece;
    return meet(x.first, x.last, y.first, y.last) || meet(x.room, x_end, y.room, y_end) ||
           meet(x.first, x.last, y.room, y_end) || meet(x.room, x_end, y.first, y.last);
  }
  /// Floats of it all, and of what is no room to receive into.
  std::int64_t floats() const { return floats_; }
  std::int64_t whole_parts() const { return whole_; }

 private:
  std::vector<Place> places_;
  std::int64_t floats_ = 0, whole_ = 0, others_ = 0;
};

}  // namespace dml
