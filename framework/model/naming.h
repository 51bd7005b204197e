// How a family names its tensors, and where its adapters sit when nothing else is said. A tensor that the family does
// not have is null; names of a layer follow "LAYERS.NUMBER.".
#pragma once

#include <array>

namespace dml {

struct Naming {
  const char *embed = "model.embed_tokens", *embed_norm = nullptr, *positions = nullptr, *layers = "model.layers";
  const char *final_norm = "model.norm", *head = "lm_head";
  const char *score = "score", *token_score = "score";  // heads of classifiers: of a text, of tokens

  const char *input_norm = "input_layernorm", *post_attention_norm = nullptr;
  const char *pre_ffn_norm = "post_attention_layernorm", *post_ffn_norm = nullptr;

  const char *q = "self_attn.q_proj", *k = "self_attn.k_proj", *v = "self_attn.v_proj", *o = "self_attn.o_proj";
  const char* qkv = "self_attn.qkv_proj";  // instead of q, k and v, where one tensor holds them
  const char *q_norm = "self_attn.q_norm", *k_norm = "self_attn.k_norm";

  const char *gate = "mlp.gate_proj", *up = "mlp.up_proj", *down = "mlp.down_proj";
  const char* gate_up = "mlp.gate_up_proj";  // instead of gate and up

  const char* activation = "mlp.act_fn";  // of the scalars of an xIELU

  std::array<const char*, 4> targets{"q_proj", "v_proj"};  // of LoRA, as PEFT's table has them; null after the last

  // Where files and modules (which adapters name) begin differently: "FILE" is "MODULE" there.
  const char *file_prefix = nullptr, *module_prefix = nullptr;
  const Naming* otherwise = nullptr;  // how other files of the family name the same tensors
};

/// Llama's names; most families differ from them in a few.
inline constexpr Naming kLlamaNaming{};

}  // namespace dml
