// Small operations on text.
#pragma once

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

}  // namespace dml
