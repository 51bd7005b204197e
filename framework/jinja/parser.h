// Recursive-descent parser; grammar and precedences are those of Jinja 3.1.
#pragma once

#include <string_view>

#include "jinja/ast.h"

namespace dml::jinja {

/// Parses a template. UserError with the place of an error. include, import, from, extends and block are rejected,
/// since a chat template is a single file; so are unknown filters and tests.
Body parse_body(std::string_view source, std::string_view name);

}  // namespace dml::jinja
