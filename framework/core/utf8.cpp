#include "core/utf8.h"

#include <algorithm>

#include <fmt/format.h>

#include <cstring>

namespace dml {
namespace {

// The sequence of a first byte (Unicode 15, table 3-7): its length, 0 if it begins none, and the range of the second
// byte, which excludes overlong forms, surrogates and values beyond U+10FFFF.
struct Lead {
  std::size_t length;
  unsigned low = 0x80, high = 0xbf;
};

Lead lead(unsigned char c) {
  if (c < 0x80) return {1};
  if (c < 0xc2 || c > 0xf4) return {0};
  if (c < 0xe0) return {2};
  if (c < 0xf0) return {3, c == 0xe0 ? 0xa0u : 0x80u, c == 0xed ? 0x9fu : 0xbfu};
  return {4, c == 0xf0 ? 0x90u : 0x80u, c == 0xf4 ? 0x8fu : 0xbfu};
}

// The number of bytes at s[i] that are well-formed for its first byte, at most `first.length`.
std::size_t agreeing(std::string_view s, std::size_t i, const Lead& first) {
  std::size_t n = 1;
  for (; n < first.length && i + n < s.size(); ++n) {
    auto c = static_cast<unsigned char>(s[i + n]);
    if (n == 1 ? c < first.low || c > first.high : (c & 0xc0u) != 0x80u) break;
  }
  return n;
}

// The length of the sequence at s[i]; 0 if it is ill-formed.
std::size_t sequence_length(std::string_view s, std::size_t i) {
  Lead first = lead(static_cast<unsigned char>(s[i]));
  return first.length <= 1 || agreeing(s, i, first) == first.length ? first.length : 0;
}

}  // namespace

char32_t next_code_point(std::string_view s, std::size_t& i) {
  std::size_t n = sequence_length(s, i);
  if (n == 0) {
    ++i;
    return 0xFFFD;
  }
  auto a = static_cast<unsigned char>(s[i]);
  char32_t c = n == 1 ? a : a & (0x7fu >> n);
  for (std::size_t k = 1; k < n; ++k) c = (c << 6) | (static_cast<unsigned char>(s[i + k]) & 0x3fu);
  i += n;
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = 0xFFFD;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

std::size_t find_invalid_utf8(std::string_view s) {
  constexpr std::uint64_t kHigh = 0x8080808080808080;
  for (std::size_t i = 0; i < s.size();) {
    for (std::uint64_t many[4]; s.size() - i >= sizeof many; i += sizeof many) {
      std::memcpy(many, s.data() + i, sizeof many);
      if (((many[0] | many[1] | many[2] | many[3]) & kHigh) != 0) break;
    }
    if (i == s.size()) break;
    std::uint64_t eight = kHigh;
    if (s.size() - i >= sizeof eight) std::memcpy(&eight, s.data() + i, sizeof eight);
    if ((eight & kHigh) == 0) {  // eight ASCII characters
      i += sizeof eight;
      continue;
    }
    std::size_t n = sequence_length(s, i);
    if (n == 0) return i;
    i += n;
  }
  return std::string_view::npos;
}

std::size_t incomplete_utf8_tail(std::string_view s) {
  for (std::size_t back = 1; back <= 3 && back <= s.size(); ++back) {
    Lead first = lead(static_cast<unsigned char>(s[s.size() - back]));
    if (first.length > back) return agreeing(s, s.size() - back, first) == back ? back : 0;
  }
  return 0;
}

// Whether s[i] begins a bidirectional control (Unicode 15, Bidi_Control).
static bool turns_direction(std::string_view s, std::size_t i) {
  if (s[i] != '\xd8' && s[i] != '\xe2') return false;
  const char32_t c = next_code_point(s, i);
  return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

std::size_t count_characters(std::string_view s) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < s.size(); ++n) next_code_point(s, i);
  return n;
}

std::size_t count_character_starts(std::string_view s) {
  return static_cast<std::size_t>(std::ranges::count_if(s, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string escape_controls(std::string_view s) {
  std::string out;
  for (std::size_t i = 0; i < s.size(); ++i) {
    auto c = static_cast<unsigned char>(s[i]);
    // U+0080 … U+009F are control characters, too; U+009B begins a terminal sequence like ESC [.
    auto next = i + 1 < s.size() ? static_cast<unsigned char>(s[i + 1]) : 0u;
    if (c == 0xc2 && next >= 0x80 && next <= 0x9f) {
      out += fmt::format("\\x{:02x}", next);
      ++i;
    } else if (turns_direction(s, i)) {
      std::size_t at = i;
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(next_code_point(s, at)));
      i = at - 1;
    } else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += s[i];
    }
  }
  return out;
}

}  // namespace dml
