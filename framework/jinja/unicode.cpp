#include "jinja/unicode.h"

#include <utf8proc.h>

#include <array>
#include <utility>

#include "core/utf8.h"

namespace dml::jinja {
namespace {

using Letters = std::u32string;  // what one character becomes: three at most, which need no allocation

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
char32_t to_lower(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }
char32_t to_upper(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }
char32_t to_title(char32_t c) { return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))); }

Letters folded_letters(char32_t c) {
  if (c < 0x80) return Letters(1, to_lower(c));
  std::array<utf8proc_int32_t, 8> out;
  int last_class = 0;
  const auto n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), out.data(), out.size(), UTF8PROC_CASEFOLD, &last_class);
  return n < 1 || n > 8 ? Letters(1, c) : Letters(out.begin(), out.begin() + n);
}

/// The case folding of a lowercase letter that has no uppercase letter of its own, such as ß or ﬁ: several letters.
/// utf8proc has no other mapping to several; their uppercase is its uppercase. Empty for other characters.
Letters several_letters(char32_t c) {
  if (c < 0x80 || category(c) == UTF8PROC_CATEGORY_LU) return {};
  Letters out = folded_letters(c);
  return out.size() > 1 ? out : Letters();
}

Letters upper_letters(char32_t c) {
  Letters out = several_letters(c);
  for (char32_t& letter : out) letter = to_upper(letter);
  return out.empty() ? Letters(1, to_upper(c)) : out;
}

Letters title_letters(char32_t c) {
  const char32_t title = to_title(c);
  Letters out = several_letters(c);
  if (out.empty() || category(title) == UTF8PROC_CATEGORY_LT) return Letters(1, title);
  std::size_t first = 0;
  while (first + 1 < out.size() && to_title(out[first]) == out[first]) ++first;
  out[first] = to_title(out[first]);
  for (char32_t& letter : out)
    if (letter == U'ι') letter = U'\u0345';  // the iota stays below its vowel
  return out;
}

bool is_cased(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT || c == U'ª' ||
         c == U'º' || to_lower(c) != to_upper(c);
}

/// Unicode's Case_Ignorable: marks and signs that stand within words.
bool is_case_ignorable(char32_t c) {
  static constexpr std::u32string_view kWithinWords = U"'.:·\u0387՟״\u2018\u2019\u2024\u2027︓﹒﹕＇．：";
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return kWithinWords.find(c) != std::u32string_view::npos;
  }
}

/// Lower case as in Python, where Σ is ς at the end of a word.
class Lowercase {
 public:
  explicit Lowercase(std::string_view text) : text_(text) {}

  /// The character that ends at byte `end`; every character of the text must be given in order.
  Letters operator()(char32_t c, std::size_t end) {
    const bool behind_letter = behind_letter_;
    note(c);
    if (c == U'İ') return U"i\u0307";
    if (c == U'Σ') return Letters(1, behind_letter && !before_letter(end) ? U'ς' : U'σ');
    return Letters(1, to_lower(c));
  }
  void note(char32_t c) {
    if (!is_case_ignorable(c)) behind_letter_ = is_cased(c);
  }

 private:
  bool before_letter(std::size_t at) const {
    while (at < text_.size()) {
      const char32_t c = next_code_point(text_, at);
      if (!is_case_ignorable(c)) return is_cased(c);
    }
    return false;
  }

  std::string_view text_;
  bool behind_letter_ = false;  // the last character that is not ignorable was a letter with case
};

/// Maps each character to the letters of map(character, its end).
template <class Map>
Text mapped(const Text& text, Map map) {
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t at = i;
    const char32_t c = next_code_point(text.view(), i);
    const Letters letters = map(c, i);
    if (letters.size() == 1 && letters[0] == c) {
      out.append(text, at, i);
      continue;
    }
    std::string bytes;
    for (const char32_t letter : letters) append_utf8(bytes, letter);
    out.append(bytes, text.mark_at(at));
  }
  return out;
}

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
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_number(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

std::size_t character_offset(std::string_view s, std::size_t index) {
  std::size_t i = 0;
  for (; index > 0 && i < s.size(); --index) next_code_point(s, i);
  return i;
}

Text lower(const Text& text) { return mapped(text, Lowercase(text.view())); }
Text upper(const Text& text) {
  return mapped(text, [](char32_t c, std::size_t) { return upper_letters(c); });
}
Text casefold(const Text& text) {
  return mapped(text, [](char32_t c, std::size_t) { return folded_letters(c); });
}

Text capitalize(const Text& text) {
  bool first = true;
  return mapped(text, [&, lowercase = Lowercase(text.view())](char32_t c, std::size_t end) mutable {
    const Letters low = lowercase(c, end);
    return std::exchange(first, false) ? title_letters(c) : low;
  });
}

Text title(const Text& text) {
  bool in_word = false;
  return mapped(text, [&, lowercase = Lowercase(text.view())](char32_t c, std::size_t end) mutable {
    const Letters low = lowercase(c, end);
    return std::exchange(in_word, is_cased(c)) ? low : title_letters(c);
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
