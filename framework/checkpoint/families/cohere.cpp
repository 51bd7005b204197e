// Families with LayerNorm: Command (Cohere), StableLM, Nemotron, StarCoder 2.
#include "checkpoint/families/groups.h"

namespace dml {
namespace {

void command(ConfigFields& c, ModelSpec& s, const ConfigDefaults& defaults) {
  s.norm.kind = NormKind::layer;
  c.common(s, defaults);
  c.attention_bias(s);
  c.positive("logit_scale", s.logit_scale, 0.0625);
  s.residual.parallel = s.residual.shared_norm = true;
  s.rope.interleaved = true;
}

void cohere(ConfigFields& c, ModelSpec& s) {
  command(c, s,
          {.norm_eps = 1e-5,
           .tied = true,
           .rope_theta = 5e5,
           .max_positions = 8192,
           .bos = 5,
           .eos = 255001,
           .eps_key = "layer_norm_eps"});
  c.qk_norm(s, "use_qk_norm", QkNormSpec::Over::per_head_stacked);
  s.qk_norm.kind = NormKind::layer;
}

void cohere2(ConfigFields& c, ModelSpec& s) {
  command(
      c, s,
      {.norm_eps = 1e-5, .tied = true, .max_positions = 8192, .bos = 5, .eos = 255001, .eps_key = "layer_norm_eps"});
  std::int64_t pattern = c.reader() ? c.reader()->integer("sliding_window_pattern", 4) : 4;
  c.windows(s, 4096, [&](std::int64_t layer) { return pattern < 1 || (layer + 1) % pattern != 0; });
  if (!c.reader()) return;
  s.without_rope.assign(static_cast<std::size_t>(s.layers), true);  // only sliding layers turn
  for (std::size_t i = 0; i < s.windows.size(); ++i) s.without_rope[i] = s.windows[i] == 0;
}

void stablelm(ConfigFields& c, ModelSpec& s) {
  layer_norm(s);
  c.common(s, {.norm_eps = 1e-5,
               .kv_heads = 32,
               .partial_rotary = 0.25,
               .max_positions = 4096,
               .bos = 0,
               .eos = 0,
               .eps_key = "layer_norm_eps",
               .derived_head_dim = true});
  c.flag("use_qkv_bias", s.bias.qkv, false);
  c.qk_norm(s, "qk_layernorm", QkNormSpec::Over::per_head);
  s.qk_norm.kind = NormKind::layer;
  c.flag("use_parallel_residual", s.residual.parallel, false);
  s.residual.shared_norm = s.residual.parallel;
}

void nemotron(ConfigFields& c, ModelSpec& s) {
  layer_norm(s);
  s.norm.offset = 1;
  c.common(s, {.norm_eps = 1e-5,
               .partial_rotary = 0.5,
               .max_positions = 4096,
               .bos = 2,
               .eos = 3,
               .activation = "relu2",
               .eps_key = "norm_eps"});
  s.gated = false;
  c.attention_bias(s);
  c.flag("mlp_bias", s.bias.mlp, false);
}

void starcoder2(ConfigFields& c, ModelSpec& s) {
  layer_norm(s);
  c.common(s, {.norm_eps = 1e-5,
               .tied = true,
               .kv_heads = 2,
               .max_positions = 4096,
               .bos = 50256,
               .eos = 50256,
               .activation = "gelu_pytorch_tanh",
               .eps_key = "norm_epsilon"});
  s.gated = false;
  c.attention_bias(s, "use_bias", true);
  s.bias.mlp = s.bias.qkv;
  c.same_windows(s, 0);
}

constexpr Naming kStableLm{.q_norm = "self_attn.q_layernorm", .k_norm = "self_attn.k_layernorm"};
constexpr Naming kStarcoder2{.up = "mlp.c_fc", .down = "mlp.c_proj"};

}  // namespace

FamilyGroup cohere_families() {
  return {
      {"cohere", "CohereForCausalLM", "Command R, Aya: one LayerNorm for both blocks, interleaved rope", cohere},
      {"cohere2", "Cohere2ForCausalLM", "Command R7B, Command A: Cohere with windows, full layers without rope",
       cohere2},
      {"stablelm", "StableLmForCausalLM", "StableLM: LayerNorm, partial rotary, parallel residual", stablelm,
       &kStableLm},
      {"nemotron", "NemotronForCausalLM", "Nemotron: LayerNorm 1 + w, squared ReLU, no gate", nemotron},
      {"starcoder2", "Starcoder2ForCausalLM", "StarCoder 2: LayerNorm, biases, no gate", starcoder2, &kStarcoder2},
  };
}

}  // namespace dml
