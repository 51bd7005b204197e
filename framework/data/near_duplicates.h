// Examples that are nearly equal, by MinHash (Broder, "On the resemblance and containment of documents", 1997): the
// share of equal minima over many hash functions estimates the share of five-token runs that two examples have in
// common. Candidates are found by bands of minima, so the cost does not grow with the square of the examples.
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

  /// Safe to call from many threads.
  static Signature signature(std::span<const Token> ids);
  /// The number of an earlier similar example; where there is none, this one is added to the index.
  std::optional<std::uint32_t> twin(const Signature& signature);

 private:
  std::vector<Signature> kept_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> bands_;
};

}  // namespace dml
