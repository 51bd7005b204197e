// Unicode properties of characters as in Python's str: white space, printability, case, classes.
#pragma once

#include <string>
#include <string_view>

#include "jinja/text.h"

namespace dml::jinja {

bool is_space(char32_t c);      // str.isspace, also what strip() takes off
bool is_printable(char32_t c);  // what repr() does not escape
bool is_alpha(char32_t c);
bool is_alnum(char32_t c);
bool is_decimal(char32_t c);    // str.isdecimal: a digit of any script
int decimal_value(char32_t c);  // of a decimal: 0 to 9
bool is_digit(char32_t c);      // str.isdigit: also ² and ⑦
bool is_number(char32_t c);     // a character of the categories of numbers
bool is_numeric(char32_t c);    // str.isnumeric: also ½ and 百

/// Offset of character `index`, at most s.size().
std::size_t character_offset(std::string_view s, std::size_t index);

/// Case mappings; every character keeps its mark.
Text lower(const Text& text);
Text upper(const Text& text);
Text casefold(const Text& text);
Text capitalize(const Text& text);
Text title(const Text& text);

/// Removes characters of `set` (null: white space) from the ends.
Text strip(const Text& text, const std::string* set, bool left, bool right);

}  // namespace dml::jinja
