#include "data/near_duplicates.h"

#include <algorithm>

namespace dml {
namespace {

// Finalizer of SplitMix64.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

NearDuplicates::Signature NearDuplicates::signature(std::span<const Token> ids) {
  Signature least;
  least.fill(UINT32_MAX);
  const std::size_t run = std::min<std::size_t>(kRun, ids.size());
  for (std::size_t begin = 0; begin + run <= ids.size(); ++begin) {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < run; ++i)
      hash = mix(hash + 0x9E3779B97F4A7C15u + static_cast<std::uint32_t>(ids[begin + i]));
    const std::uint64_t step = mix(hash) | 1;  // double hashing in place of 64 independent hash functions
    for (auto& minimum : least) {
      minimum = std::min(minimum, static_cast<std::uint32_t>(hash >> 32));
      hash += step;
    }
  }
  return least;
}

std::optional<std::uint32_t> NearDuplicates::find_or_add(const Signature& signature) {
  std::array<std::uint64_t, kHashes / kBand> keys;
  for (std::size_t band = 0; band < keys.size(); ++band) {
    std::uint64_t key = band;
    for (std::size_t i = 0; i < kBand; ++i) key = mix(key + 0x9E3779B97F4A7C15u + signature[band * kBand + i]);
    keys[band] = key;
    auto found = bands_.find(key);
    if (found == bands_.end()) continue;
    for (std::uint32_t other : found->second) {
      int equal = 0;
      for (std::size_t i = 0; i < kHashes; ++i) equal += kept_[other][i] == signature[i];
      if (equal >= kAlike * kHashes) return other;
    }
  }
  for (std::uint64_t key : keys) bands_[key].push_back(static_cast<std::uint32_t>(kept_.size()));
  kept_.push_back(signature);
  return std::nullopt;
}

}  // namespace dml
