// A batch of operations of one kind, such as the products of a mixture's experts, each with its own rows and weight. A
// single operation is a list of one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/parallel.h"

namespace dml::kernels {

/// A non-owning list whose entries are created on access. During a DryRun any entry may have all rows.
template <class T>
class TaskList {
 public:
  TaskList(const T& one)  // NOLINT: implicit on purpose
      : size_(1), object_(&one), entry_([](const void* o, std::int64_t) { return *static_cast<const T*>(o); }) {}
  template <class F>
  TaskList(std::int64_t size, const F& entry)
      : size_(size),
        object_(&entry),
        entry_([](const void* o, std::int64_t i) -> T { return (*static_cast<const F*>(o))(i); }) {}

  std::int64_t size() const { return size_; }
  T operator[](std::int64_t i) const { return entry_(object_, i); }

  /// The sum of count(entry) over all entries; during a DryRun the largest, since one entry may have all rows.
  template <class F>
  auto total(F count) const {
    decltype(count(entry_(object_, 0))) sum{};
    for (std::int64_t i = 0; i < size_; ++i) {
      auto n = count((*this)[i]);
      sum = dry_run() ? std::max(sum, n) : sum + n;
    }
    return sum;
  }

 private:
  std::int64_t size_;
  const void* object_;
  T (*entry_)(const void*, std::int64_t);
};

/// The calling thread's buffer for the prefix sums of a parallel_tiles() call.
std::span<std::int64_t> tile_totals(std::int64_t entries);

struct TileIndex {
  std::int64_t entry, i;  // tile i of an entry
  std::int64_t number;    // index among the tiles of all entries
};

/// Calls tile(entry, index) for all count(entry) tiles of every entry, in one parallel_for.
template <class T, class Count, class F>
void parallel_tiles(const TaskList<T>& all, Count count, F tile) {
  if (dry_run() || all.size() == 0) return;
  const std::span<std::int64_t> ends = tile_totals(all.size());
  std::int64_t total = 0;
  for (std::int64_t entry = 0; entry < all.size(); ++entry)
    ends[static_cast<std::size_t>(entry)] = total += count(all[entry]);
  parallel_for(total, [&](std::int64_t number) {
    const std::int64_t entry = std::ranges::upper_bound(ends, number) - ends.begin();
    tile(all[entry], TileIndex{entry, number - (entry > 0 ? ends[static_cast<std::size_t>(entry - 1)] : 0), number});
  });
}

}  // namespace dml::kernels
