// The option --kv-cache, shared by several commands.
#pragma once

#include <string>

#include "core/dtype.h"

namespace dml {

/// Parses its value. UserError unless it is f32, bf16 or int8.
DType cache_storage(const std::string& name);

}  // namespace dml
