#include "cli/precision_options.h"

#include "assembly/job.h"

namespace dml {

void PrecisionOptions::add_to(Options& options) {
  options.choice("kv-cache", kv_cache, {{"f32", DType::f32}, {"bf16", DType::bf16}, {"int8", DType::int8}},
                 "element type of the key-value cache (f32). bf16 and int8 take a half and a quarter of the memory; "
                 "answers may differ");
  options.choice(
      "bf16", bf16, {{"true", Bf16::on}, {"false", Bf16::off}, {"auto", Bf16::automatic}},
      "round the factors of matrix products to bfloat16 (false); auto: those that the processor then multiplies "
      "faster, most of all for quantized models and long prompts; answers may differ");
}

DType PrecisionOptions::apply() const {
  set_generation_precision(bf16.value_or(Bf16::off));
  return kv_cache.value_or(DType::f32);
}

}  // namespace dml
