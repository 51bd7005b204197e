// Regular expressions as languages. The syntax is ECMA-262's with the u flag, which JSON Schema's `pattern` refers to:
// classes, groups, alternatives, quantifiers (greedy or not, the language is the same), ^ and $, \b and \B, look-ahead,
// look-behind of one character, \d \w \s \xHH \uHHHH \u{…} \p{General_Category}; and of other dialects \A, \Z and the
// flags (?i) and (?s). What is no regular language (back-references) and longer look-behind are refused by name.
#pragma once

#include <string_view>

#include "constraint/language.h"

namespace dml {

/// The texts in which the expression is found somewhere, as `pattern` means it. UserError names the place in `regex`.
Languages::Id regex_search(Languages& languages, std::string_view regex);
/// The texts that the expression matches as a whole.
Languages::Id regex_match(Languages& languages, std::string_view regex);

}  // namespace dml
