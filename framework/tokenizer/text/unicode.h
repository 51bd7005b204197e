// Properties of code points, as one byte each in a table that is filled once (from utf8proc, Unicode 15).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dml {

enum CharClass : std::uint8_t {
  kLetter = 1,        // \p{L}
  kNumber = 2,        // \p{N}
  kSpace = 4,         // White_Space
  kPunctuation = 8,   // \p{P}
  kMark = 16,         // \p{Mn}: what BERT strips as an accent
  kControl = 32,      // \p{C}: Cc Cf Co Cn Cs
  kWord = 64,         // \w: letters, marks, decimal digits, connectors and what else is alphabetic
  kAsciiSymbol = 128  // $+<=>^`|~: punctuation to BERT and to Punctuation, not to Unicode
};

/// 0x110000 classes.
const std::uint8_t* char_classes();

/// Decodes the code point at s[i] and advances i past it. The text must be well-formed UTF-8.
inline char32_t decode_char(const char* s, std::size_t& i) {
  auto at = [&](std::size_t k) { return static_cast<unsigned char>(s[k]); };
  unsigned a = at(i);
  if (a < 0x80) return ++i, a;
  if (a < 0xe0) return i += 2, (a & 31u) << 6 | (at(i - 1) & 63u);
  if (a < 0xf0) return i += 3, (a & 15u) << 12 | (at(i - 2) & 63u) << 6 | (at(i - 1) & 63u);
  return i += 4, (a & 7u) << 18 | (at(i - 3) & 63u) << 12 | (at(i - 2) & 63u) << 6 | (at(i - 1) & 63u);
}
/// Bytes of the character that starts with `lead` in well-formed UTF-8.
inline std::uint32_t char_length(char lead) {
  auto a = static_cast<unsigned char>(lead);
  return a < 0xc0 ? 1 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
}

/// What Python's str.isspace() and \s of its regular expressions take for white space.
inline bool is_python_space(char32_t c) { return (c >= 0x1c && c <= 0x1f) || (char_classes()[c] & kSpace) != 0; }

/// Unicode's default lower case: one or two code points (İ becomes i and a dot).
std::string lower_case(char32_t c);
/// Unicode's simple upper case.
char32_t upper_case(char32_t c);

/// GPT-2's byte alphabet: every byte as a printable code point, and back (-1 if c is not in it).
char32_t byte_to_char(unsigned char byte);
int char_to_byte(char32_t c);
/// Converts a spelling in the byte alphabet to bytes; false if a character is not in it.
bool spelling_to_bytes(std::string_view spelling, std::string& bytes);
std::string bytes_to_spelling(std::string_view bytes);

/// Ill-formed bytes become U+FFFD, one per maximal subpart, as in browsers and Rust.
std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace dml
