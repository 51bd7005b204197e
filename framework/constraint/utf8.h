// Reads UTF-8 byte by byte: the bytes read of a code point determine a range of code points, so an automaton over code
// points can check text byte by byte. Surrogates and overlong forms are rejected.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace dml {

/// A partially read code point: first … last are its possible values, `missing` is the number of bytes to come.
struct PartialCodePoint {
  std::uint8_t missing = 0;
  char32_t first = 0, last = 0;

  bool complete() const { return missing == 0; }
  /// Reads the next byte, which starts a new code point if this one is complete. False for invalid UTF-8.
  bool read(unsigned char byte) {
    if (complete()) {
      if (byte < 0x80) return set(0, byte, byte, 0);
      if (byte < 0xC2) return false;
      if (byte < 0xE0) return set(1, (byte & 0x1F) << 6, 0x3F, 0x80);
      if (byte < 0xF0) return set(2, (byte & 0x0F) << 12, 0xFFF, 0x800);
      if (byte < 0xF5) return set(3, (byte & 0x07) << 18, 0x3FFFF, 0x10000);
      return false;
    }
    if ((byte & 0xC0) != 0x80) return false;
    --missing;
    const int bits = 6 * missing;
    const char32_t low = base() | static_cast<char32_t>(byte & 0x3F) << bits;
    const char32_t high = low | ((char32_t{1} << bits) - 1);
    if (high < first || low > last) return false;
    first = std::max(first, low);
    last = std::min(last, high);
    // Surrogates are not characters.
    if (first >= 0xD800 && last <= 0xDFFF) return false;
    return true;
  }
  bool operator==(const PartialCodePoint&) const = default;

 private:
  // The known bits: those above the bytes that were missing before this one.
  char32_t base() const { return first >> (6 * (missing + 1)) << (6 * (missing + 1)); }
  bool set(int n, char32_t low, char32_t span, char32_t least) {
    missing = static_cast<std::uint8_t>(n);
    if (n == 0) {
      first = last = low;
      return true;
    }
    first = std::max(low, least);
    last = std::min<char32_t>(low | span, 0x10FFFF);
    return true;
  }
};

/// The code points of a text; sets `valid` to false if it is not UTF-8.
inline std::u32string code_points(std::string_view text, bool* valid = nullptr) {
  std::u32string out;
  PartialCodePoint c;
  bool good = true;
  for (unsigned char byte : text) {
    if (!c.read(byte)) {
      good = false;
      c = {};
    } else if (c.complete()) {
      out.push_back(c.first);
    }
  }
  if (valid) *valid = good && c.complete();
  return out;
}

}  // namespace dml
