// Small operations on text.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace dml {

/// Converts A–Z to lower case; every other byte stays.
inline std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// The text without the given characters at its ends.
inline std::string_view trim(std::string_view text, std::string_view blanks = " \t\r\n\f\v") {
  const std::size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The text with `to` in the place of every `from`, from left to right; with an empty `from`, the text itself.
inline std::string with_replaced(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  std::size_t done = 0;
  for (std::size_t at; (at = text.find(from, done)) != text.npos; done = at + from.size())
    out.append(text, done, at - done).append(to);
  return out.append(text, done);
}

/// Whether the text is that many lower-case hexadecimal digits.
inline bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// The text with "_" in the place of what names of files and jobs should not hold.
inline std::string safe_file_name(std::string text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  std::ranges::replace_if(
      text, [&](char c) { return !plain(c); }, '_');
  return text;
}

}  // namespace dml
