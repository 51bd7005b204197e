// Families with fused tensors: Phi 3, GLM 4.
#include "checkpoint/families/groups.h"

namespace dml {
namespace {

void phi3(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1e-5,
               .partial_rotary = 1,
               .max_positions = 4096,
               .bos = 1,
               .eos = 32000,
               .phi3_rope = true});
  s.fused_qkv = s.fused_gate_up = true;
  c.same_windows(s, 0);
}

void glm4(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1.5625e-7,
               .head_dim = 128,
               .kv_heads = 2,
               .partial_rotary = 0.5,
               .max_positions = 131072,
               .bos = -1,
               .eos = -1});
  c.flag("attention_bias", s.qkv_bias, true);
  s.rope_interleaved = true;
  s.sandwich_norms = true;
  s.fused_gate_up = true;
  if (auto* from = c.reader(); from && !from->has("eos_token_id") && s.vocab > 151338) s.eos = {151329, 151336, 151338};
}

constexpr Naming kPhi3{.targets = {"qkv_proj"}};
constexpr Naming kGlm4{.post_attention_norm = "post_self_attn_layernorm",
                       .pre_ffn_norm = "post_attention_layernorm",
                       .post_ffn_norm = "post_mlp_layernorm"};

}  // namespace

FamilyGroup phi_families() {
  return {
      {"phi3", "Phi3ForCausalLM", "Phi 3, 3.5 and 4: fused tensors, longrope", phi3, &kPhi3},
      {"glm4", "Glm4ForCausalLM", "GLM 4: four norms, interleaved rope on half of a head", glm4, &kGlm4},
  };
}

}  // namespace dml
