// UTF-8: strict decoding of untrusted text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dml {

/// Decodes the code point at s[i] and advances i past it. Ill-formed input (overlong, surrogate, truncated) gives
/// U+FFFD and advances by one byte.
char32_t next_code_point(std::string_view s, std::size_t& i);
/// Appends a code point; surrogates and values beyond U+10FFFF become U+FFFD.
void append_utf8(std::string& out, char32_t code);
/// Offset of the first ill-formed byte, or npos.
std::size_t find_invalid_utf8(std::string_view s);
/// The number of bytes (0 to 3) of an incomplete character at the end.
std::size_t incomplete_utf8_tail(std::string_view s);
/// Ill-formed input counts by the byte.
std::size_t count_characters(std::string_view s);
/// The number of characters that begin in `s`, which may be any part of a text.
std::size_t count_character_starts(std::string_view s);
/// Escapes control characters except newline and tab as \xNN, and bidirectional controls as \uNNNN, so that data cannot
/// control the terminal.
std::string escape_controls(std::string_view s);

}  // namespace dml
