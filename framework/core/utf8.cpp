#include "core/utf8.h"

#include <fmt/format.h>

namespace dml {
namespace {

// Length of a well-formed sequence at s[i], 0 when ill-formed (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view s, std::size_t i) {
  auto at = [&](std::size_t k) { return k < s.size() ? static_cast<unsigned char>(s[k]) : 0u; };
  unsigned a = at(i);
  if (a < 0x80) return 1;
  auto tail = [&](std::size_t k) { return (at(k) & 0xc0u) == 0x80u; };
  if (a >= 0xc2 && a <= 0xdf) return tail(i + 1) ? 2 : 0;
  if (a >= 0xe0 && a <= 0xef) {
    unsigned b = at(i + 1), low = a == 0xe0 ? 0xa0 : 0x80, high = a == 0xed ? 0x9f : 0xbf;
    return b >= low && b <= high && tail(i + 2) ? 3 : 0;
  }
  if (a >= 0xf0 && a <= 0xf4) {
    unsigned b = at(i + 1), low = a == 0xf0 ? 0x90 : 0x80, high = a == 0xf4 ? 0x8f : 0xbf;
    return b >= low && b <= high && tail(i + 2) && tail(i + 3) ? 4 : 0;
  }
  return 0;
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
  for (std::size_t i = 0; i < s.size();) {
    std::size_t n = sequence_length(s, i);
    if (n == 0) return i;
    i += n;
  }
  return std::string_view::npos;
}

std::size_t incomplete_utf8_tail(std::string_view s) {
  for (std::size_t back = 1; back <= 3 && back <= s.size(); ++back) {
    auto c = static_cast<unsigned char>(s[s.size() - back]);
    if ((c & 0xc0u) == 0x80u) continue;
    std::size_t need = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
    return need > back ? back : 0;
  }
  return 0;
}

std::string escape_controls(std::string_view s) {
  std::string out;
  for (char ch : s) {
    auto c = static_cast<unsigned char>(ch);
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
      out += fmt::format("\\x{:02x}", c);
    else
      out += ch;
  }
  return out;
}

}  // namespace dml
