#include "cli/precision_options.h"

#include "assembly/job.h"
#include "core/error.h"

namespace dml {
namespace {

DType cache_storage(const std::string& name) {
  if (name == "f32") return DType::f32;
  if (name == "bf16") return DType::bf16;
  if (name == "int8") return DType::int8;
  throw UserError("--kv-cache: '{}' is not one of f32, bf16, int8", name);
}

Bf16 products_in(const std::string& name) {
  if (name == "true") return Bf16::on;
  if (name == "false") return Bf16::off;
  if (name == "auto") return Bf16::automatic;
  throw UserError("--bf16: '{}' is not one of true, false, auto", name);
}

}  // namespace

void PrecisionOptions::add_to(Options& options) {
  options.text("kv-cache", kv_cache,
               "element type of the key-value cache (f32). bf16 and int8 take a half and a quarter of the memory; "
               "answers may differ",
               "f32|bf16|int8");
  options.text(
      "bf16", bf16,
      "round the factors of matrix products to bfloat16 (false); auto: those that the processor then multiplies "
      "faster, most of all for quantized models and long prompts; answers may differ",
      "true|false|auto");
}

DType PrecisionOptions::apply() const {
  set_generation_precision(bf16 ? products_in(*bf16) : Bf16::off);
  return kv_cache ? cache_storage(*kv_cache) : DType::f32;
}

}  // namespace dml
