#include "cli/cache_option.h"

#include "core/error.h"

namespace dml {

DType cache_storage(const std::string& name) {
  if (name == "f32") return DType::f32;
  if (name == "bf16") return DType::bf16;
  if (name == "int8") return DType::int8;
  throw UserError("--kv-cache: '{}' is not one of f32, bf16, int8", name);
}

}  // namespace dml
