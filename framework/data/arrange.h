// The order of training examples and the validation split: a pure function of counts, settings and the seed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dml {

struct DataSection;  // recipe/recipe.h

/// Examples [first, last) of one dataset, in the order of its files.
struct DatasetRange {
  std::int32_t first = 0, last = 0;
  double weight = 1;        // 0.5: half of them; 2: each twice
  bool validation = false;  // listed in test_datasets
};

struct Arrangement {
  std::vector<std::int32_t> train, validation;
};

/// Applies weights, shuffles each dataset, merges and shuffles, selects the shard of the merged data, and splits the
/// validation examples off the end. UserError when a split is empty.
Arrangement arrange(std::span<const DatasetRange> datasets, const DataSection& data, std::uint64_t seed);

/// How often an epoch trains an example of the dataset.
std::int64_t uses_of(const DatasetRange& dataset, const Arrangement& order);

struct Repeats {
  std::int64_t duplicates = 0;  // examples that equal another one of the same split
  std::int64_t leaked = 0;      // validation examples that are in the training data, too
  bool all_leaked = false;      // the training data has no other examples
};

/// Finds equal examples by `hashes` of all examples. One that dataset weights repeat is not its own duplicate.
Repeats repeats_in(const Arrangement& order, std::span<const std::uint64_t> hashes);

}  // namespace dml
