// Finds nearly equal examples by MinHash (Broder, "On the resemblance and containment of documents", 1997): the
// fraction of equal minima over many hash functions estimates the fraction of five-token shingles that two examples
// share. Candidates are found by bands of minima (LSH), so the cost is not quadratic in the number of examples.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/packed_batch.h"

namespace dml {

class NearDuplicates {
 public:
  static constexpr int kHashes = 64, kBand = 4, kRun = 5;
  static constexpr double kAlike = 0.9;  // estimated similarity from which two examples are duplicates
  using Signature = std::array<std::uint32_t, kHashes>;

  /// Thread-safe.
  static Signature signature(std::span<const Token> ids);
  /// The index of an earlier near duplicate; if there is none, this example is added.
  std::optional<std::uint32_t> find_or_add(const Signature& signature);

 private:
  std::vector<Signature> kept_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> bands_;
};

}  // namespace dml
