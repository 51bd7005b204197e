// The weight of a loss in the data: of a row, or of a message.
#pragma once

#include <string>

#include "core/json.h"

namespace dml {

/// Reads a number from 0 to 1e6, or a boolean. UserError naming `field` for anything else.
double loss_weight(const Json& value, const std::string& field);

}  // namespace dml
