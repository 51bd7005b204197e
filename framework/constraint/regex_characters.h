// The code points of escapes in regular expressions: \d, \w, \s, \p{…} and their complements.
#pragma once

#include <string>
#include <vector>

#include "constraint/language.h"

namespace dml {

/// The set of \d, \w or \s by its letter, or its complement by the capital letter; empty for other letters.
std::vector<CodePoints> class_escape(char32_t letter);

/// The control character of \n, \r, \t, \f, \v or \0 by its letter; −1 for other letters.
int control_escape(char32_t letter);

/// The code points of a Unicode general category ("Lu", "L" or "Letter"); empty for an unknown name.
std::vector<CodePoints> general_category(const std::string& name);

/// `set` with the capital of every small letter in it and the small letter of every capital.
std::vector<CodePoints> both_cases(std::vector<CodePoints> set);

/// Whether `c` is in `set`.
bool contains(const std::vector<CodePoints>& set, char32_t c);

/// All code points that are not in `set`.
std::vector<CodePoints> inverted(std::vector<CodePoints> set);

}  // namespace dml
