#include "core/sha.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace dml {
namespace {

constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

template <int Size>
void fill(std::array<std::uint32_t, Size>& w, const unsigned char* bytes) {
  for (int i = 0; i < 16; ++i) {
    const unsigned char* p = bytes + 4 * i;
    w[i] = std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
  }
}

void mix(std::array<std::uint32_t, 8>& state, const unsigned char* bytes) {
  std::array<std::uint32_t, 64> w;
  fill<64>(w, bytes);
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t one =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const std::array<std::uint32_t, 8> more = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += more[i];
}

void mix(std::array<std::uint32_t, 5>& state, const unsigned char* bytes) {
  std::array<std::uint32_t, 80> w;
  fill<80>(w, bytes);
  for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (int i = 0; i < 80; ++i) {
    const std::uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                            : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                            : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                     : (b ^ c ^ d) + 0xca62c1d6;
    const std::uint32_t next = std::rotl(a, 5) + f + e + w[i];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  const std::array<std::uint32_t, 5> more = {a, b, c, d, e};
  for (int i = 0; i < 5; ++i) state[i] += more[i];
}

}  // namespace

template <int Words>
Sha<Words>::Sha() {
  constexpr std::array<std::uint32_t, 8> kStart256 = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  constexpr std::array<std::uint32_t, 8> kStart1 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::copy_n((Words == 8 ? kStart256 : kStart1).begin(), Words, state_.begin());
}

template <int Words>
void Sha<Words>::block(const unsigned char* bytes) {
  mix(state_, bytes);
}

template <int Words>
Sha<Words>& Sha<Words>::update(const void* data, std::size_t size) {
  auto* bytes = static_cast<const unsigned char*>(data);
  std::size_t held = size_ % 64;
  size_ += size;
  if (held > 0) {
    const std::size_t more = std::min(size, 64 - held);
    std::memcpy(pending_.data() + held, bytes, more);
    bytes += more, size -= more, held += more;
    if (held < 64) return *this;
    block(pending_.data());
  }
  for (; size >= 64; bytes += 64, size -= 64) block(bytes);
  if (size > 0) std::memcpy(pending_.data(), bytes, size);
  return *this;
}

template <int Words>
std::string Sha<Words>::hex() {
  const std::uint64_t bits = size_ * 8;
  constexpr unsigned char kEnd[64] = {0x80};
  update(kEnd, 64 - (size_ + 8) % 64);
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  update(length, 8);
  std::string out;
  for (std::uint32_t word : state_) out += fmt::format("{:08x}", word);
  return out;
}

template class Sha<8>;
template class Sha<5>;

}  // namespace dml
