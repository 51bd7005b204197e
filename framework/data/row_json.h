// A fast reader for rows of JSON. It accepts a subset of what core/json.h accepts, with the same values. Anything
// unusual or wrong is left to core/json.h, so that there is one set of limits and messages.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace dml {

/// Reads `text` into `out`; false, with unspecified contents of `out`, where parse_json() must be used. Memory that
/// `out` holds is reused where the shape is the same, as in rows of one dataset. `stopped` is set to the first byte
/// that was not consumed.
bool read_row_json(std::string_view text, Json& out, std::size_t most_values = JsonLimits{}.elements,
                   std::size_t* stopped = nullptr);

/// A shortened copy of a large row for an error message: the beginnings of its texts, and all that surrounds byte `at`.
/// The parser of core/json.h would hold several copies of the whole row.
std::string shortened_row(std::string_view text, std::size_t at);

/// The first byte from `at` on that needs handling in a JSON string: a quote, a backslash, a control character; `end`
/// where there is none.
const char* end_of_plain(const char* at, const char* end);

}  // namespace dml
