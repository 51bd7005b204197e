#include "data/loader.h"

#include <numeric>

namespace dml {

Loader::Loader(const Examples& examples, const Schedule& schedule) : examples_(examples), schedule_(schedule) {
  auto tokens = static_cast<std::size_t>(schedule.longest());
  tokens_.reserve(tokens);
  labels_.reserve(tokens);
  positions_.reserve(tokens);
  starts_.reserve(static_cast<std::size_t>(schedule.most_examples()) + 1);
}

PackedBatch Loader::load(std::int64_t global_step, std::int64_t m) { return load(schedule_.examples(global_step, m)); }

PackedBatch Loader::load(std::span<const std::int32_t> chosen) {
  tokens_.clear();
  labels_.clear();
  positions_.clear();
  starts_.assign(1, 0);
  for (std::int32_t i : chosen) {
    auto ids = examples_.ids(i), labels = examples_.labels(i);
    if (ids.empty()) continue;
    const std::size_t begin = tokens_.size();
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    labels_.insert(labels_.end(), labels.begin() + 1, labels.end());
    labels_.push_back(kIgnore);
    positions_.resize(begin + ids.size());
    std::iota(positions_.begin() + static_cast<std::ptrdiff_t>(begin), positions_.end(), 0);
    starts_.push_back(static_cast<std::int32_t>(tokens_.size()));
  }
  return {tokens_, labels_, positions_, starts_};
}

}  // namespace dml
