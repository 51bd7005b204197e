// The code points of escapes in regular expressions and grammars: \d, \w, \s, \p{…} and their complements, \xHH.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/language.h"

namespace dml {

/// The set of \d, \w or \s by its letter, or its complement by the capital letter; empty for other letters.
std::vector<CodePoints> class_escape(char32_t letter);

/// The control character of \n, \r, \t, \f, \v or \0 by its letter; −1 for other letters.
int control_escape(char32_t letter);

/// The code points of a Unicode general category ("Lu", "L" or "Letter"); empty for an unknown name.
const std::vector<CodePoints>& general_category(const std::string& name);

/// The value of `digits` hexadecimal digits (8 at most) from `at` on; empty if one is missing. Advances `at` past the
/// digits.
std::optional<char32_t> hexadecimal(std::u32string_view text, std::size_t& at, int digits);

/// `set` with the capital of every small letter in it and the small letter of every capital.
std::vector<CodePoints> both_cases(std::vector<CodePoints> set);

/// Whether `c` is in `set`.
bool contains(const std::vector<CodePoints>& set, char32_t c);

/// All code points that are not in `set`.
std::vector<CodePoints> inverted(std::vector<CodePoints> set);

}  // namespace dml
