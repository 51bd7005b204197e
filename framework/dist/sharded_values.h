// The values under zero3: every rank stores its shards, and gathers a part before a pass reads it.
//
//   pass reads      part 1      part 2      part 3 …
//   gathering         2, 3        3, 4        4, 5        as far ahead as there are buffers (dist/part_buffers.h)
//
// A part is released when another one is gathered into its buffer. All ranks make the same calls in the same order.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "dist/part_buffers.h"
#include "dist/shards.h"

namespace dml {

class ShardedValues {
 public:
  /// Copies this rank's shards from the store, or, if it holds no values, from the initialization of its parameters;
  /// releases the store's own memory. `parts`: unit_parts(store). All arguments must outlive this object.
  ShardedValues(Comm& group, ParameterStore& store, const std::vector<PartRef>& parts);

  /// This rank's shard of a part.
  std::byte* own(std::size_t part) const { return own_values_[part]; }
  /// Called when a pass reaches a unit: gathers its small part, and starts gathering its first large part in this
  /// direction and the small part of the next unit.
  void enter(std::size_t unit, int direction);
  /// Waits until the part's values are gathered.
  void hold(std::size_t part);
  /// Starts gathering the following large parts in this direction, as many as there are buffers.
  void gather_ahead(std::size_t part, int direction);
  /// Releases all gathered parts.
  void forget();

  /// Gathers a whole unit, and releases the one gathered before.
  void show(std::size_t unit);
  /// Runs `read` on the group's first rank; the other ranks take part in gathering the units that it shows.
  void read_on_first_rank(const std::function<void(const DistributionStrategy::Show& show)>& read);
  void gather_all();
  void release_shown();
  bool shows() const { return shown_.capacity() > 0; }

 private:
  struct Gathered {
    bool held = false;                 // the buffer belongs to the part
    std::unique_ptr<Pending> pending;  // the gathering in progress; null when the values have arrived
  };

  void take(std::size_t part);
  /// Initializes values of a shard, from element `first` on, as its parameter is initialized.
  void start_values(const Shard& some, std::int64_t first);
  std::byte* gathered(std::size_t part) const { return gathered_at_ + buffers_[part].first * width_; }
  void start(std::size_t part);
  void forget(std::size_t part);
  void gather_whole(std::size_t unit);
  std::size_t next_large(std::size_t part, int direction) const;
  UnitPart& bound(std::size_t part) const { return store_.units()[parts_[part].unit].parts[parts_[part].part]; }

  Comm& group_;
  ParameterStore& store_;
  const std::vector<PartRef>& parts_;
  std::vector<std::size_t> first_of_;  // first_parts(parts_)
  PartBuffers buffers_;
  Arena own_, gathered_, shown_;
  std::int64_t width_;  // bytes of a value
  std::byte* gathered_at_ = nullptr;
  std::vector<std::byte*> own_values_;
  std::vector<Gathered> states_;  // by part
  int direction_ = 1;             // of the current pass over the units
};

}  // namespace dml
