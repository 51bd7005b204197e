// The weight that data give to a loss: of a row, or of a message.
#pragma once

#include <string>

#include "core/json.h"

namespace dml {

/// A number from 0 to 1e6, or a boolean. UserError naming `field` on anything else.
double loss_weight(const Json& value, const std::string& field);

}  // namespace dml
