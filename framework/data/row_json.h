// A fast parser for rows of JSON. It accepts a subset of what core/json.h accepts, with the same values. Anything
// unusual or malformed is left to core/json.h, so that limits and messages exist once.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace dml {

/// Parses `text` into `out`; returns false, with unspecified contents of `out`, if parse_json() must be used. Memory of
/// `out` is reused if the shape is the same, as in rows of one dataset. `stopped` is set to the first byte that was not
/// consumed.
bool read_row_json(std::string_view text, Json& out, std::size_t most_values = JsonLimits{}.elements,
                   std::size_t* stopped = nullptr);

/// A shortened copy of a large row for an error message: the beginnings of its strings, and everything around byte
/// `at`. Passing the whole row to the parser of core/json.h would take several times its memory.
std::string shortened_row(std::string_view text, std::size_t at);

/// The first byte from `at` on that needs handling in a JSON string: a quote, a backslash or a control character; `end`
/// if there is none.
const char* end_of_plain(const char* at, const char* end);

}  // namespace dml
