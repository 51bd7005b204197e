// Tokens → tree, by recursive descent; the grammar and its precedences are Jinja 3.1's.
#pragma once

#include <string_view>

#include "jinja/ast.h"

namespace dml::jinja {

/// Throws UserError with the place. include, import, from, extends and block are refused by name: a chat template is
/// one text. Filters and tests that do not exist are found here, too.
Body parse_body(std::string_view source, std::string_view name);

}  // namespace dml::jinja
