// --kv-cache, the same for every command that has it.
#pragma once

#include <string>

#include "core/dtype.h"

namespace dml {

/// UserError unless it is f32, bf16 or int8.
DType cache_storage(const std::string& name);

}  // namespace dml
