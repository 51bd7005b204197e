// --kv-cache, the same for every command that has it.
#pragma once

#include <string>

#include "kernels/weight.h"

namespace dml {

/// UserError unless it is f32, bf16 or int8.
kernels::Storage cache_storage(const std::string& name);

}  // namespace dml
