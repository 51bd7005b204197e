// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// A number is a pure function of (seed, stream, index). There is no state to save, and numbers depend on neither
// threads, ranks nor restarts.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace dml {

/// The four 32-bit words of one Philox4x32-10 block.
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0], b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// The purpose of a random number; part of its address, so that different purposes never share numbers.
enum class Purpose : std::uint32_t {
  init = 1,
  dropout = 2,
  shuffle = 3,
  sample = 4,
  adapter = 5,
  noise = 6,
  split = 7,
  projection = 8,
  rounding = 9
};

/// A stream of numbers addressed by index. `a` and `b` distinguish streams of one purpose (layer, step …).
class Random {
 public:
  Random(std::uint64_t seed, Purpose purpose, std::uint64_t a = 0, std::uint32_t b = 0)
      : key_{static_cast<std::uint32_t>(seed),
             static_cast<std::uint32_t>(seed >> 32) ^ (static_cast<std::uint32_t>(purpose) << 24)},
        high_{static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32) ^ b * 0x9E3779B9u} {}

  /// Word number `index` of the stream.
  std::uint32_t word(std::uint64_t index) const { return block(index >> 2)[index & 3]; }
  /// Words 4·index … 4·index + 3.
  std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), high_[0], high_[1]},
                  key_);
  }
  /// The stream's address: the Philox key and the high half of its counter, for code that draws many blocks at once.
  const std::array<std::uint32_t, 2>& key() const { return key_; }
  const std::array<std::uint32_t, 2>& high() const { return high_; }
  /// Uniform in [0, 1), 24 bits.
  float uniform(std::uint64_t index) const { return static_cast<float>(word(index) >> 8) * 0x1p-24f; }
  /// Uniform in [0, 1), 53 bits; uses words 2·index and 2·index + 1.
  double uniform_double(std::uint64_t index) const;
  /// Standard normal, Box–Muller on words 2·index and 2·index + 1.
  float normal(std::uint64_t index) const;
  /// out[i] = scale · normal(first + i), in parallel.
  void normals(std::uint64_t first, std::span<float> out, float scale = 1) const;
  /// Uniform integer in [0, bound) by multiply-shift; its bias is below 2^-32 · bound.
  std::uint64_t below(std::uint64_t index, std::uint64_t bound) const;

 private:
  std::array<std::uint32_t, 2> key_, high_;
};

/// Fisher and Yates' shuffle, from the last item down: number i of the stream chooses among the first i.
template <class T>
void shuffle(std::span<T> items, const Random& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i, i)]);
}

}  // namespace dml
