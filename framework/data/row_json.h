// Rows of JSON, read fast. What this reader takes is what core/json.h takes, with the same value; whatever is unusual
// or wrong it leaves to that one, which then says what is wrong. So there is one set of limits and of messages, and the
// rows of a dataset, which are short and well formed, do not go through a parser that looks at one byte at a time.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace dml {

/// The value of `text` in `out`; false, with `out` in no particular state, when parse_json() should have it. What `out`
/// held before is written over where the shape is the same (rows of a dataset have the same columns), so that a row
/// after another takes no memory of its own.
/// `stopped` is set to the byte it did not take.
bool read_row_json(std::string_view text, Json& out, std::size_t most_values = JsonLimits{}.elements,
                   std::size_t* stopped = nullptr);

/// A large row as short as it can be said what is wrong with it near byte `at`: of its texts there is little more than
/// the beginning, and all that stands around that byte. The other reader holds what it reads several times over.
std::string shortened_row(std::string_view text, std::size_t at);

/// The first byte from `at` on that does not simply belong to a JSON string: a quote, a backslash, a control character;
/// `end` when there is none.
const char* end_of_plain(const char* at, const char* end);

}  // namespace dml
