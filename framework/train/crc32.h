// Reflected CRC-32, computed one byte at a time: fast enough for logs of a few hundred bytes a step.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dml {

enum class Crc32 : std::uint32_t {
  ieee = 0xEDB88320,        // CRC-32 of zlib, PNG and Ethernet
  castagnoli = 0x82F63B78,  // CRC-32C of TFRecord files and iSCSI
};

template <Crc32 polynomial>
std::uint32_t crc32(std::string_view data) {
  static constexpr std::array<std::uint32_t, 256> kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        table[i] = table[i] >> 1 ^ (table[i] & 1 ? static_cast<std::uint32_t>(polynomial) : 0u);
    }
    return table;
  }();
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : data) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

}  // namespace dml
