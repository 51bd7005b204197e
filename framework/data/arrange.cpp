#include "data/arrange.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <unordered_set>

#include "core/error.h"
#include "core/random.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

// Streams of Purpose::shuffle; the schedule has 0 to 2.
enum : std::uint32_t { kMerged = 100, kBefore = 101, kHeldOut = 102 };

// weight 2.25: every example twice, and a random quarter of them, in order, a third time.
std::vector<std::int32_t> weighted(const DatasetRange& range, std::uint64_t seed, std::uint64_t dataset) {
  std::vector<std::int32_t> once(static_cast<std::size_t>(range.last - range.first)), out;
  std::iota(once.begin(), once.end(), range.first);
  double whole = std::floor(range.weight);
  for (int i = 0; i < static_cast<int>(whole); ++i) out.insert(out.end(), once.begin(), once.end());
  auto rest = static_cast<std::size_t>(std::llround((range.weight - whole) * static_cast<double>(once.size())));
  if (rest > 0) {
    auto drawn = once;
    shuffle(std::span(drawn), Random(seed, Purpose::sample, dataset, kMerged));
    drawn.resize(rest);
    std::sort(drawn.begin(), drawn.end());
    out.insert(out.end(), drawn.begin(), drawn.end());
  }
  return out;
}

// The first occurrence of each.
std::vector<std::int32_t> distinct(const std::vector<std::int32_t>& items) {
  std::vector<std::int32_t> out;
  std::unordered_set<std::int32_t> seen;
  std::ranges::copy_if(items, std::back_inserter(out), [&](std::int32_t i) { return seen.insert(i).second; });
  return out;
}

}  // namespace

Arrangement arrange(std::span<const DatasetRange> datasets, const DataSection& data, std::uint64_t seed) {
  Arrangement out;
  bool repeated = false;
  for (std::size_t d = 0; d < datasets.size(); ++d) {
    auto items = weighted(datasets[d], seed, d);
    if (data.shuffle_before_merging_datasets) shuffle(std::span(items), Random(seed, Purpose::shuffle, d, kBefore));
    auto& list = datasets[d].validation ? out.validation : out.train;
    list.insert(list.end(), items.begin(), items.end());
    repeated |= datasets[d].weight > 1;
  }
  const bool shuffles = data.shuffle_merged_datasets && !data.curriculum_sampling;
  if (shuffles) shuffle(std::span(out.train), Random(seed, Purpose::shuffle, 0, kMerged));
  if (data.dataset_shard_num) {
    if (*data.dataset_shard_num < 1 || data.dataset_shard_idx < 0 || data.dataset_shard_idx >= *data.dataset_shard_num)
      throw UserError("dataset_shard_idx is {}, must be 0 to {}", data.dataset_shard_idx, *data.dataset_shard_num - 1);
    std::vector<std::int32_t> shard;
    for (auto i = static_cast<std::size_t>(data.dataset_shard_idx); i < out.train.size();
         i += static_cast<std::size_t>(*data.dataset_shard_num))
      shard.push_back(out.train[i]);
    out.train = std::move(shard);
  }
  if (data.val_set_size <= 0) return out;

  // Held out by example, so that none is in both splits, whatever its weight.
  std::vector<std::int32_t> examples = repeated ? distinct(out.train) : out.train;
  if (repeated && shuffles) shuffle(std::span(examples), Random(seed, Purpose::shuffle, 0, kHeldOut));
  const auto size = static_cast<double>(examples.size());
  double wanted = data.val_set_size < 1 ? std::ceil(data.val_set_size * size - 1e-9) : std::floor(data.val_set_size);
  if (wanted >= size)
    throw UserError("val_set_size {} leaves no examples to train on; there are {}", data.val_set_size, examples.size())
        .about("val_set_size");
  const std::span held = std::span(examples).last(static_cast<std::size_t>(wanted));
  out.validation.insert(out.validation.end(), held.begin(), held.end());
  if (repeated) {
    const std::unordered_set<std::int32_t> in_validation(held.begin(), held.end());
    std::erase_if(out.train, [&](std::int32_t i) { return in_validation.contains(i); });
  } else {
    out.train.resize(out.train.size() - held.size());
  }
  return out;
}

std::int64_t uses_of(const DatasetRange& dataset, const Arrangement& order) {
  return std::ranges::count_if(order.train, [&](std::int32_t i) { return i >= dataset.first && i < dataset.last; });
}

Repeats repeats_in(const Arrangement& order, std::span<const std::uint64_t> hashes) {
  Repeats out;
  auto sorted_hashes = [&](std::vector<std::int32_t> items) {
    std::ranges::sort(items);
    const auto repeated = std::ranges::unique(items);
    items.erase(repeated.begin(), repeated.end());
    std::vector<std::uint64_t> of;
    for (std::int32_t i : items) of.push_back(hashes[static_cast<std::size_t>(i)]);
    std::ranges::sort(of);
    for (std::size_t i = 1; i < of.size(); ++i) out.duplicates += of[i] == of[i - 1];
    return of;
  };
  const auto train = sorted_hashes(order.train), validation = sorted_hashes(order.validation);
  for (std::uint64_t hash : validation) out.leaked += std::ranges::binary_search(train, hash);
  out.all_leaked =
      std::ranges::all_of(train, [&](std::uint64_t hash) { return std::ranges::binary_search(validation, hash); });
  return out;
}

}  // namespace dml
