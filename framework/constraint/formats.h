// The `format`s of JSON Schema that are asserted, as languages. For formats with a long grammar (hostnames, addresses,
// URIs) the language is a subset of it: a constraint may exclude unusual values, but never accepts a wrong one.
#pragma once

#include <optional>
#include <string_view>

#include "constraint/language.h"

namespace dml {

/// The language of a format; empty for a name that the standard does not define, which asserts nothing.
std::optional<Languages::Id> format_language(Languages& languages, std::string_view name);

}  // namespace dml
