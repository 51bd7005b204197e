// The tensor names of a family and its default adapter targets. Null: the family does not have the tensor. Names inside
// a layer are relative to "LAYERS.NUMBER.".
#pragma once

#include <array>

namespace dml {

struct Naming {
  const char *embed = "model.embed_tokens", *embed_norm = nullptr, *positions = nullptr, *layers = "model.layers";
  const char *final_norm = "model.norm", *head = "lm_head";
  const char *score = "score", *token_score = "score";  // classification heads of sequences and of tokens

  const char *input_norm = "input_layernorm", *post_attention_norm = nullptr;
  const char *pre_ffn_norm = "post_attention_layernorm", *post_ffn_norm = nullptr;

  const char *q = "self_attn.q_proj", *k = "self_attn.k_proj", *v = "self_attn.v_proj", *o = "self_attn.o_proj";
  const char* qkv = "self_attn.qkv_proj";  // instead of q, k and v, if one tensor holds them
  const char *q_norm = "self_attn.q_norm", *k_norm = "self_attn.k_norm";

  const char *gate = "mlp.gate_proj", *up = "mlp.up_proj", *down = "mlp.down_proj";
  const char* gate_up = "mlp.gate_up_proj";  // instead of gate and up

  const char* activation = "mlp.act_fn";  // the scalars of xIELU

  std::array<const char*, 4> targets{"q_proj", "v_proj"};  // PEFT's default LoRA targets; null after the last

  // Prefixes, if tensors and modules (which adapters name) begin differently: file_prefix in files is module_prefix in
  // modules.
  const char *file_prefix = nullptr, *module_prefix = nullptr;
  const Naming* alternative = nullptr;  // the names in other files of the family
};

/// Llama's names, from which most families differ in a few.
inline constexpr Naming kLlamaNaming{};

}  // namespace dml
