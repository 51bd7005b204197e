// A fast 64-bit hash of short byte strings for hash tables in memory: 8 bytes at a time, each step a
// 64×64→128 multiplication folded to 64 bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace dml {

inline std::uint64_t fold_multiply(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_bytes(std::string_view s) {
  std::uint64_t h = 0x9E3779B97F4A7C15u ^ s.size();
  const char* p = s.data();
  std::size_t n = s.size();
  for (; n >= 8; n -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    h = fold_multiply(h ^ word, 0xD6E8FEB86659FD93u);
  }
  std::uint64_t tail = 0;
  std::memcpy(&tail, p, n);
  return fold_multiply(h ^ tail, 0xA0761D6478BD642Fu);
}

}  // namespace dml
