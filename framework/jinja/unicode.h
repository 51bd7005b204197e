// Unicode properties of characters as in Python's str: white space, printability, case, classes.
#pragma once

#include <string>
#include <string_view>

#include "jinja/text.h"

namespace dml::jinja {

bool is_space(char32_t c);      // str.isspace, also what strip() takes off
bool is_printable(char32_t c);  // what repr() does not escape
bool is_alpha(char32_t c);
bool is_digit(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
char32_t to_lower(char32_t c);
char32_t to_upper(char32_t c);

/// Offset of character `index`, at most s.size().
std::size_t character_offset(std::string_view s, std::size_t index);

/// Case mappings; every character keeps its mark.
Text lower(const Text& text);
Text upper(const Text& text);
Text capitalize(const Text& text);
Text title(const Text& text);

/// Removes characters of `set` (null: white space) from the ends.
Text strip(const Text& text, const std::string* set, bool left, bool right);

}  // namespace dml::jinja
