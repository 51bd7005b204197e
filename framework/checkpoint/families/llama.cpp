// Llama, and the families that are Llama with other defaults, biases, an MLP without a gate, or layers without rope.
#include <algorithm>

#include "checkpoint/families/groups.h"
#include "core/error.h"
#include "core/shown.h"

namespace dml {
namespace {

void llama(ConfigFields& c, ModelSpec& s) {
  c.common(s, {});
  c.attention_bias(s);
  c.flag("mlp_bias", s.bias.mlp, false);
}

void mistral(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.kv_heads = 8, .max_positions = 131072});
  // With "layer_types", transformers reads a mistral as a ministral.
  const bool by_layer = c.reader() ? c.reader()->has("layer_types") : std::ranges::count(s.windows, 0) > 0;
  if (by_layer) c.windows(s, 4096, {});
  else c.same_windows(s, 4096);
}

void ministral(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.kv_heads = 8, .max_positions = 131072});
  c.windows(s, 4096, [](std::int64_t) { return true; });
}

// "no_rope_layers" is 1 where a layer turns; without it, every no_rope_layer_interval-th does not.
void read_rope_layers(const ConfigReader& c, ModelSpec& s) {
  s.without_rope.assign(static_cast<std::size_t>(s.layers), false);
  if (!c.has("no_rope_layers")) {
    const std::int64_t interval = c.integer("no_rope_layer_interval", 4);
    if (interval < 1) throw UserError("{}: 'no_rope_layer_interval' must be above 0, is {}", c.source(), interval);
    for (std::int64_t i = interval - 1; i < s.layers; i += interval) s.without_rope[static_cast<std::size_t>(i)] = true;
    return;
  }
  const Json& turning = c.at("no_rope_layers");
  if (!turning.is_array() || turning.size() < s.without_rope.size())
    throw UserError("{}: 'no_rope_layers' must list {} layers, {}", c.source(), s.layers,
                    turning.is_array() ? fmt::format("lists {}", turning.size()) : "is not a list");
  for (std::size_t i = 0; i < s.without_rope.size(); ++i) {
    if (turning[i] != 0 && turning[i] != 1)
      throw UserError("{}: 'no_rope_layers' holds {}, choose from 0, 1", c.source(), shown(dump(turning[i]), 60));
    s.without_rope[i] = turning[i] == 0;
  }
}

void smollm3(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.tied = true, .kv_heads = 4, .rope_theta = 2e6, .max_positions = 32768, .bos = 128000, .eos = 128001});
  c.attention_bias(s);
  c.flag("mlp_bias", s.bias.mlp, false);
  if (auto* from = c.reader()) {
    read_rope_layers(*from, s);
  } else {
    Json& turning = (*c.writer())["no_rope_layers"] = Json::array();
    for (bool without : s.without_rope) turning.push_back(without ? 0 : 1);
  }
  bool slides = !s.windows.empty();
  c.flag("use_sliding_window", slides, false);
  // transformers masks by "layer_types", whatever the flag says, which only fills them in.
  if (slides || (c.reader() && c.reader()->has("layer_types")))
    c.windows(s, 0, [&](std::int64_t i) { return s.without_rope[static_cast<std::size_t>(i)]; });
}

void arcee(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1e-5, .max_positions = 4096, .bos = 128000, .eos = 128001, .activation = "relu2"});
  s.gated = false;
  c.attention_bias(s);
  c.flag("mlp_bias", s.bias.mlp, false);
}

void seed_oss(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.head_dim = 128, .kv_heads = 8, .max_positions = 524288, .bos = 0, .eos = 2});
  c.flag("attention_bias", s.bias.qkv, true);
  c.flag("attention_out_bias", s.bias.out, false);
  c.flag("mlp_bias", s.bias.mlp, false);
}

void ernie4_5(ConfigFields& c, ModelSpec& s) {
  c.common(
      s, {.norm_eps = 1e-5, .tied = true, .head_dim = 128, .kv_heads = 2, .rope_theta = 5e5, .max_positions = 131072});
  c.attention_bias(s, "use_bias");
  s.bias.mlp = s.bias.qkv;
  s.rope.interleaved = true;
}

void helium(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1e-8, .head_dim = 128, .kv_heads = 20, .rope_theta = 1e5, .max_positions = 4096});
  c.flag("attention_bias", s.bias.qkv, false);
  c.flag("mlp_bias", s.bias.mlp, false);
  s.rope.interleaved = true;
}

void hunyuan(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1e-5, .ntk_alpha = true});
  c.attention_bias(s);
  s.qk_norm = {.over = QkNormSpec::Over::head, .after_rope = true};
  auto* from = c.reader();
  if (!from) return;
  if (!from->boolean("use_qk_norm", true))  // in the first configs, which also count one expert
    throw UserError("{}: 'use_qk_norm' is false, but a hunyuan_v1_dense has norms on q and k", from->source());
  if (const std::int64_t experts = from->integer("num_experts", 0); experts > 1)
    throw UserError("{}: 'num_experts' is {}, but a hunyuan_v1_dense has no experts", from->source(), experts);
}

void granite(ConfigFields& c, ModelSpec& s) {
  c.common(s, {});
  c.attention_bias(s);
  c.flag("mlp_bias", s.bias.mlp, false);
  granite_multipliers(c, s);
}

void apertus(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1e-5,
               .rope_theta = 12e6,
               .max_positions = 65536,
               .activation = "xielu",
               .rope = {.theta = 12e6,
                        .scaling = RopeScaling::llama3,
                        .factor = 8,
                        .low_freq_factor = 1,
                        .high_freq_factor = 4,
                        .original_positions = 8192}});
  s.gated = false;
  c.attention_bias(s);
  s.qk_norm.over = QkNormSpec::Over::head;
}

constexpr Naming kApertus{.input_norm = "attention_layernorm", .pre_ffn_norm = "feedforward_layernorm"};
constexpr Naming kHunyuan{.q_norm = "self_attn.query_layernorm", .k_norm = "self_attn.key_layernorm"};

}  // namespace

void granite_multipliers(ConfigFields& c, ModelSpec& s) {
  c.positive("embedding_multiplier", s.embedding_scale, 1);
  s.scales_noise = true;
  c.positive("residual_multiplier", s.residual.scale, 1);
  c.positive("attention_multiplier", s.scores.scale, 1);
  double divisor = 1 / s.logit_scale;
  c.positive("logits_scaling", divisor, 1);
  s.logit_scale = 1 / divisor;
}

FamilyGroup llama_families() {
  return {
      {"llama", "LlamaForCausalLM", "Llama 1-3.x, TinyLlama, SmolLM, Yi", llama},
      {"mistral", "MistralForCausalLM", "Mistral: Llama with a sliding window", mistral},
      {"ministral", "MinistralForCausalLM", "Ministral: Mistral with windows on some layers", ministral},
      {"smollm3", "SmolLM3ForCausalLM", "SmolLM 3: layers without rope", smollm3},
      {"arcee", "ArceeForCausalLM", "Arcee: squared ReLU, no gate", arcee},
      {"apertus", "ApertusForCausalLM", "Apertus: xIELU with trained scalars, norms on q and k, no gate", apertus,
       &kApertus},
      {"seed_oss", "SeedOssForCausalLM", "Seed-OSS: biases on q, k, v", seed_oss},
      {"ernie4_5", "Ernie4_5ForCausalLM", "ERNIE 4.5: interleaved rope", ernie4_5},
      {"helium", "HeliumForCausalLM", "Helium 1: interleaved rope", helium},
      {"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", "HunYuan: norms on q and k after RoPE", hunyuan, &kHunyuan},
      {"granite", "GraniteForCausalLM", "Granite 3: multipliers on embedding, scores, residuals, logits", granite},
  };
}

}  // namespace dml
