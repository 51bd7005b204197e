#include "cli/cache_option.h"

#include "core/error.h"

namespace dml {

kernels::Storage cache_storage(const std::string& name) {
  if (name == "f32") return kernels::Storage::f32;
  if (name == "bf16") return kernels::Storage::bf16;
  if (name == "int8") return kernels::Storage::int8;
  throw UserError("--kv-cache: '{}' is none of f32, bf16, int8", name);
}

}  // namespace dml
