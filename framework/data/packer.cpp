#include "data/packer.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/error.h"

namespace dml {
namespace {

std::int64_t length_of(std::span<const std::int32_t> lengths, std::int32_t example, std::int64_t capacity) {
  std::int64_t length = lengths[static_cast<std::size_t>(example)];
  DML_CHECK(length <= capacity, "an example of {} tokens for bins of {}", length, capacity);
  return length;
}

void pack_group(std::vector<std::int32_t> group, std::span<const std::int32_t> lengths, std::int64_t capacity,
                std::int64_t most, Lists& out) {
  std::stable_sort(group.begin(), group.end(), [&](std::int32_t a, std::int32_t b) {
    return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
  });
  std::vector<std::vector<std::int32_t>> bins;
  std::set<std::pair<std::int64_t, std::size_t>> open;  // (room, bin): the tightest fit, then the oldest bin, is first
  for (std::int32_t example : group) {
    std::int64_t length = length_of(lengths, example, capacity);
    auto fit = open.lower_bound({length, 0});
    std::size_t bin = bins.size();
    std::int64_t room = capacity;
    if (fit == open.end()) {
      bins.emplace_back();
    } else {
      std::tie(room, bin) = *fit;
      open.erase(fit);
    }
    bins[bin].push_back(example);
    if (static_cast<std::int64_t>(bins[bin].size()) < most && room > length) open.insert({room - length, bin});
  }
  for (auto& bin : bins) {
    out.items.insert(out.items.end(), bin.begin(), bin.end());
    out.close();
  }
}

}  // namespace

Lists best_fit(std::span<const std::int32_t> order, std::span<const std::int32_t> lengths, std::int64_t capacity,
               std::int64_t most, std::int64_t group) {
  DML_CHECK(group > 0 && most > 0);
  Lists out;
  out.items.reserve(order.size());
  auto size = static_cast<std::int64_t>(order.size());
  for (std::int64_t begin = 0; begin < size; begin += group)
    pack_group({order.begin() + begin, order.begin() + std::min(begin + group, size)}, lengths, capacity, most, out);
  return out;
}

Lists next_fit(std::span<const std::int32_t> order, std::span<const std::int32_t> lengths, std::int64_t capacity,
               std::int64_t most) {
  Lists out;
  std::int64_t room = capacity, count = 0;
  for (std::int32_t example : order) {
    std::int64_t length = length_of(lengths, example, capacity);
    if (count > 0 && (length > room || count == most)) {
      out.close();
      room = capacity;
      count = 0;
    }
    out.items.push_back(example);
    room -= length;
    ++count;
  }
  if (count > 0) out.close();
  return out;
}

}  // namespace dml
