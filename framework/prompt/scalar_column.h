// Numbers and truth values in columns: in CSV and TSV, every cell is a text.
#pragma once

#include "core/json.h"

namespace dml {

/// Returns what a cell stands for: a boolean or a number if its text reads as one (true and false in any case), null if
/// the text is empty, otherwise the value itself.
Json scalar_column(const Json& value);

}  // namespace dml
