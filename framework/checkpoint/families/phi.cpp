// Phi; and GLM 4, whose gate and up are one tensor as Phi 3's are.
#include "checkpoint/families/groups.h"

namespace dml {
namespace {

void phi(ConfigFields& c, ModelSpec& s) {
  layer_norm(s);
  c.common(s, {.norm_eps = 1e-5,
               .partial_rotary = 0.5,
               .max_positions = 2048,
               .activation = "gelu_new",
               .eps_key = "layer_norm_eps"});
  s.gated = false;
  s.bias.qkv = s.bias.out = s.bias.mlp = s.bias.head = true;
  s.residual.parallel = s.residual.shared_norm = true;
  c.qk_norm(s, "qk_layernorm", QkNormSpec::Over::head);
  s.qk_norm.bias = bool{s.qk_norm};
  s.qk_norm.kind = NormKind::layer;
}

void phi3(ConfigFields& c, ModelSpec& s) {
  c.common(s,
           {.norm_eps = 1e-5, .partial_rotary = 1, .max_positions = 4096, .bos = 1, .eos = 32000, .phi3_rope = true});
  s.stored = {.qkv = StorageSpec::Qkv::stacked, .gate_up = true};
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
  c.flag("attention_bias", s.bias.qkv, true);
  s.rope.interleaved = true;
  s.stored.gate_up = true;
  if (auto* from = c.reader(); from && !from->has("eos_token_id") && s.vocab > 151338) s.eos = {151329, 151336, 151338};
}

constexpr Naming kPhi{.final_norm = "model.final_layernorm",
                      .pre_ffn_norm = nullptr,
                      .o = "self_attn.dense",
                      .q_norm = "self_attn.q_layernorm",
                      .k_norm = "self_attn.k_layernorm",
                      .up = "mlp.fc1",
                      .down = "mlp.fc2",
                      .targets = {"q_proj", "v_proj", "fc1", "fc2"}};
constexpr Naming kPhi3{.targets = {"qkv_proj"}};
constexpr Naming kGlm4{.post_attention_norm = "post_self_attn_layernorm",
                       .pre_ffn_norm = "post_attention_layernorm",
                       .post_ffn_norm = "post_mlp_layernorm"};

}  // namespace

FamilyGroup phi_families() {
  return {
      {"phi", "PhiForCausalLM", "Phi 1, 1.5 and 2: one LayerNorm for both blocks, a bias on the head", phi, &kPhi},
      {"phi3", "Phi3ForCausalLM", "Phi 3, 3.5 and 4: fused tensors, longrope", phi3, &kPhi3},
      {"glm", "GlmForCausalLM",
       "GLM-4-9B of 2024, GLM-Edge: interleaved rope on half of a head, one tensor for gate and up", glm4},
      {"glm4", "Glm4ForCausalLM", "GLM 4: four norms, interleaved rope on half of a head", glm4, &kGlm4},
  };
}

}  // namespace dml
