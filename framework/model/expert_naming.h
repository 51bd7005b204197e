// How a family's files name the parts of a mixture of experts; names of a layer follow "LAYERS.NUMBER.".
#pragma once

namespace dml {

/// How files hold the matrices of the E experts of a layer.
enum class ExpertLayout {
  each,        // EXPERTS.NUMBER.gate, up and down: a tensor for each
  stacked,     // gate_up (E, 2 · F, D), gate's rows first, and down (E, D, F)
  transposed,  // gate_up (E, D, 2 · F), columns of gate and up interleaved, and down (E, F, D): gpt-oss
  mxfp4  // the same matrices as (out, in), in blocks of codes: gate_up_blocks (E, 2 · F, D / 32, 16), gate_up_scales …
};

struct ExpertNaming {
  const char* router = "mlp.gate";
  const char* correction = "mlp.gate.e_score_correction_bias";
  const char *experts = "mlp.experts", *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
  const char *gate_up = "mlp.experts.gate_up_proj", *stacked_down = "mlp.experts.down_proj";  // whole names of tensors
  // Names of the same parameters in transformers 5's modules, which adapters target (model/expert_parameters.h).
  const char *target_gate_up = "mlp.experts.gate_up_proj", *target_down = "mlp.experts.down_proj";
  const char *shared = "mlp.shared_expert", *shared_gate = "mlp.shared_expert_gate";
};

/// Qwen's names, which most families have.
inline constexpr ExpertNaming kQwenExperts{};

}  // namespace dml
