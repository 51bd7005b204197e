// UTF-8: strict decoding of text that comes from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dml {

/// Decodes the code point at s[i] and advances i past it. Ill-formed input (overlong, surrogate, cut off) gives 0xFFFD
/// and moves by one byte.
char32_t next_code_point(std::string_view s, std::size_t& i);
/// Appends a code point; surrogates and values beyond U+10FFFF become U+FFFD.
void append_utf8(std::string& out, char32_t code);
/// Offset of the first ill-formed byte, or npos.
std::size_t find_invalid_utf8(std::string_view s);
/// How many bytes at the end are the beginning of a character that is not complete yet (0 to 3).
std::size_t incomplete_utf8_tail(std::string_view s);
/// Control characters (but newline and tab) as \xNN, marks of writing direction as \uNNNN, so that data cannot play
/// with a terminal.
std::string escape_controls(std::string_view s);

}  // namespace dml
