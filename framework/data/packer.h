// Packing: distributes examples over bins of at most `capacity` tokens. It depends on the lengths alone, so every rank
// and a resumed run compute the same bins.
//
// best_fit sorts each group by length, longest first, and puts each example into the bin it fits most tightly (best-fit
// decreasing). next_fit keeps the order: an example that does not fit closes the bin.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dml {

/// Lists of examples in one array; list i is items[starts[i] .. starts[i+1]).
struct Lists {
  std::vector<std::int32_t> items;
  std::vector<std::int64_t> starts{0};

  std::int64_t size() const { return static_cast<std::int64_t>(starts.size()) - 1; }
  std::span<const std::int32_t> operator[](std::int64_t i) const {
    auto k = static_cast<std::size_t>(i);
    return {items.data() + starts[k], static_cast<std::size_t>(starts[k + 1] - starts[k])};
  }
  void close() { starts.push_back(static_cast<std::int64_t>(items.size())); }
};

/// `order`: indices of the examples; `lengths`: lengths of all examples, none above `capacity`. At most `most` examples
/// per bin.
Lists best_fit(std::span<const std::int32_t> order, std::span<const std::int32_t> lengths, std::int64_t capacity,
               std::int64_t most, std::int64_t group);
Lists next_fit(std::span<const std::int32_t> order, std::span<const std::int32_t> lengths, std::int64_t capacity,
               std::int64_t most);

}  // namespace dml
