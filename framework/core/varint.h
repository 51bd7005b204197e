// Variable-length integers of protobuf and Thrift: seven bits a byte, the lowest first; the high bit says that another
// byte follows.
#pragma once

#include <cstdint>
#include <optional>

namespace dml {

/// Reads a number with next_byte(); empty if it has more than 10 bytes.
template <class NextByte>
std::optional<std::uint64_t> read_varint(NextByte next_byte) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const auto byte = static_cast<std::uint8_t>(next_byte());
    if (shift < 64) value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

/// Decodes the zigzag code of a signed number (0, 1, 2, 3 mean 0, −1, 1, −2). The result is in two's complement.
constexpr std::uint64_t unzigzag(std::uint64_t code) { return (code >> 1) ^ (~(code & 1) + 1); }

}  // namespace dml
