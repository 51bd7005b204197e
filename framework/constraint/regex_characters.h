// Sets of code points that escapes of regular expressions stand for: \d, \w, \s, \p{…}, and the complement of one.
#pragma once

#include <string>
#include <vector>

#include "constraint/language.h"

namespace dml {

/// \d, \w or \s by its letter, and with the capital its complement; empty for other letters.
std::vector<CodePoints> class_escape(char32_t letter);

/// The control character that \n, \r, \t, \f, \v or \0 stands for, by its letter; −1 for other letters.
int control_escape(char32_t letter);

/// Code points of a general category of Unicode ("Lu", "L" or "Letter"); empty where there is none of this name.
std::vector<CodePoints> general_category(const std::string& name);

/// `set` with the capital of every small letter in it and the small letter of every capital.
std::vector<CodePoints> both_cases(std::vector<CodePoints> set);

/// Whether `c` is in `set`.
bool contains(const std::vector<CodePoints>& set, char32_t c);

/// All code points that are not in `set`.
std::vector<CodePoints> inverted(std::vector<CodePoints> set);

}  // namespace dml
