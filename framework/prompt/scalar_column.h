// Numbers and truth values in columns: in CSV and TSV, every cell is a text.
#pragma once

#include "core/json.h"

namespace dml {

/// The value; of a text that reads as true, false (in any case) or a number, that; of an empty text, null.
Json scalar_column(const Json& value);

}  // namespace dml
