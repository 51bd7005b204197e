// The `format`s of JSON Schema that are asserted, as languages. Where a format's grammar is long (hostnames, addresses,
// URIs), the language here is a part of it, never more: a constraint may leave out a strange value, but lets no wrong
// one pass.
#pragma once

#include <optional>
#include <string_view>

#include "constraint/language.h"

namespace dml {

/// Nothing for a name that is no format of the standard: those assert nothing.
std::optional<Languages::Id> format_language(Languages& languages, std::string_view name);

}  // namespace dml
