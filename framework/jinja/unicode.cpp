#include "jinja/unicode.h"

#include <utf8proc.h>

#include <utility>

#include "core/utf8.h"

namespace dml::jinja {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

/// Appends the mapping of a character with its mark; handles uppercase mappings of two letters.
void append_mapped(Text& out, char32_t c, char32_t mapped, bool upper_case, Mark mark) {
  std::string bytes;
  if (upper_case && c == U'ß') bytes = "SS";
  else append_utf8(bytes, mapped);
  out.append(bytes, mark);
}

template <class Map>
Text mapped(const Text& text, Map map) {
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t at = i;
    const char32_t c = next_code_point(text.view(), i);
    const auto [to, upper_case] = map(c);
    if (to == c) out.append(text, at, i);
    else append_mapped(out, c, to, upper_case, text.mark_at(at));
  }
  return out;
}

using Mapped = std::pair<char32_t, bool>;
Mapped upper_of(char32_t c) { return c == U'ß' ? Mapped{U'S', true} : Mapped{to_upper(c), true}; }

}  // namespace

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}
bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_digit(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
char32_t to_lower(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }
char32_t to_upper(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }

std::size_t character_offset(std::string_view s, std::size_t index) {
  std::size_t i = 0;
  for (; index > 0 && i < s.size(); --index) next_code_point(s, i);
  return i;
}

Text lower(const Text& text) {
  return mapped(text, [](char32_t c) { return Mapped{to_lower(c), false}; });
}
Text upper(const Text& text) { return mapped(text, upper_of); }

Text capitalize(const Text& text) {
  bool first = true;
  return mapped(text, [&](char32_t c) {
    return std::exchange(first, false) ? upper_of(c) : Mapped{to_lower(c), false};
  });
}

Text title(const Text& text) {
  bool in_word = false;
  return mapped(text, [&](char32_t c) {
    const bool cased = is_lower(c) || is_upper(c);
    const bool inside = std::exchange(in_word, cased);
    return inside ? Mapped{to_lower(c), false} : upper_of(c);
  });
}

Text strip(const Text& text, const std::string* set, bool left, bool right) {
  const std::string_view s = text.view();
  auto takes = [&](std::size_t begin, std::size_t end, char32_t c) {
    return set ? set->find(s.substr(begin, end - begin)) != std::string::npos : is_space(c);
  };
  std::size_t begin = 0, end = s.size();
  while (left && begin < end) {
    std::size_t next = begin;
    const char32_t c = next_code_point(s, next);
    if (!takes(begin, next, c)) break;
    begin = next;
  }
  while (right && begin < end) {
    std::size_t at = end - 1;
    while (at > begin && (static_cast<unsigned char>(s[at]) & 0xc0) == 0x80) --at;
    std::size_t next = at;
    const char32_t c = next_code_point(s, next);
    if (!takes(at, end, c)) break;
    end = at;
  }
  return text.slice(begin, end);
}

}  // namespace dml::jinja
