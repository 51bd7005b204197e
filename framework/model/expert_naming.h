// The names of a mixture of experts in a family's files, relative to "LAYERS.NUMBER.".
#pragma once

namespace dml {

/// How files store the matrices of the E experts of a layer.
enum class ExpertLayout {
  each,        // a tensor for each: EXPERTS.NUMBER.gate, up and down
  stacked,     // gate_up (E, 2 · F, D), gate first, and down (E, D, F)
  transposed,  // gate_up (E, D, 2 · F), columns of gate and up interleaved, and down (E, F, D): gpt-oss
  mxfp4  // the matrices of `transposed` as (out, in) in MXFP4: gate_up_blocks (E, 2 · F, D / 32, 16), gate_up_scales …
};

struct ExpertNaming {
  const char* router = "mlp.gate";
  const char* correction = "mlp.gate.e_score_correction_bias";
  const char *experts = "mlp.experts", *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
  const char *gate_up = "mlp.experts.gate_up_proj", *stacked_down = "mlp.experts.down_proj";  // full tensor names
  // The names of these parameters in the modules of transformers 5, which adapters target (model/expert_parameters.h).
  const char *target_gate_up = "mlp.experts.gate_up_proj", *target_down = "mlp.experts.down_proj";
  const char *shared = "mlp.shared_expert", *shared_gate = "mlp.shared_expert_gate";
};

/// Qwen's names, which most families use.
inline constexpr ExpertNaming kQwenExperts{};

}  // namespace dml
