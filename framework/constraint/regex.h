// Regular expressions as languages. The syntax is ECMA-262's with the u flag, which JSON Schema's `pattern` refers to:
// classes, groups, alternatives, quantifiers (greedy and lazy are equivalent), ^ and $ at the ends, look-ahead in a
// sequence, \d \w \s \xHH \uHHHH \u{…} \p{General_Category}. Back-references (not regular) and look-behind of more
// than one character are rejected.
#pragma once

#include <string_view>

#include "constraint/language.h"

namespace dml {

/// The texts that contain a match, as in `pattern`. UserError with the position in `regex`.
Languages::Id regex_search(Languages& languages, std::string_view regex);
/// The texts that match as a whole.
Languages::Id regex_match(Languages& languages, std::string_view regex);

}  // namespace dml
