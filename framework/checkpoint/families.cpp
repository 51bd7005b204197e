// What each family adds to the common reading. Sources: transformers' configuration_*.py and modeling_*.py of the
// family.
#include <cmath>

#include "checkpoint/config_reader.h"
#include "checkpoint/model_config.h"
#include "core/bf16.h"
#include "core/error.h"
#include "core/log.h"

namespace dml {
namespace {

void read_llama(const ConfigReader& c, ModelSpec& s) {
  c.read_common(s, {});
  s.qkv_bias = s.out_bias = c.boolean("attention_bias", false);
  s.mlp_bias = c.boolean("mlp_bias", false);
  s.activation = c.activation({"hidden_act"}, "silu");
}

void read_mistral(const ConfigReader& c, ModelSpec& s) {
  c.read_common(s, {.kv_heads = 8, .max_positions = 131072});
  s.activation = c.activation({"hidden_act"}, "silu");
  s.windows = c.same_windows(s, c.sliding_window(4096));
}

std::vector<std::int64_t> qwen_windows(const ConfigReader& c, const ModelSpec& s) {
  if (!c.boolean("use_sliding_window", false)) return {};
  std::int64_t full = c.integer("max_window_layers", 28);
  return c.windows(s, c.sliding_window(4096), [&](std::int64_t layer) { return layer >= full; });
}

void read_qwen2(const ConfigReader& c, ModelSpec& s) {
  c.read_common(s, {.kv_heads = 32, .max_positions = 32768, .bos = -1, .eos = -1});
  s.qkv_bias = true;  // no key says so
  s.activation = c.activation({"hidden_act"}, "silu");
  s.windows = qwen_windows(c, s);
}

void read_qwen3(const ConfigReader& c, ModelSpec& s) {
  c.read_common(s, {.head_dim = 128, .kv_heads = 32, .max_positions = 32768, .bos = -1, .eos = -1});
  s.qkv_bias = s.out_bias = c.boolean("attention_bias", false);
  s.qk_norm = true;
  s.activation = c.activation({"hidden_act"}, "silu");
  s.windows = qwen_windows(c, s);
}

/// sqrt(hidden) as a number of the type the model is stored in, as the original multiplies.
double gemma_scale(const ConfigReader& c, const ModelSpec& s) {
  auto scale = static_cast<float>(std::sqrt(static_cast<double>(s.hidden)));
  if (c.dtype() == "bfloat16") return to_float(to_bf16(scale));
  if (c.dtype() == "float16") return to_float(to_f16(scale));
  return scale;
}

void gemma_block(const ConfigReader& c, ModelSpec& s) {
  s.norm_offset = 1;
  s.embedding_scale = gemma_scale(c, s);
  s.qkv_bias = s.out_bias = c.boolean("attention_bias", false);
}

void read_gemma(const ConfigReader& c, ModelSpec& s) {
  c.read_common(s, {.tied = true, .head_dim = 256, .kv_heads = 16, .max_positions = 8192, .bos = 2, .eos = 1});
  gemma_block(c, s);
  // transformers 5 reads this key alone; 4.39 to 4.47 read the other one, which Gemma 2 has.
  s.activation = c.activation({"hidden_act"}, "gelu_pytorch_tanh");
  if (c.has("hidden_activation") && c.activation({"hidden_activation"}, "") != s.activation)
    log_warning("{}: 'hidden_act' and 'hidden_activation' differ; as in transformers 5, the first counts: {}",
                c.source(), activation_name(s.activation));
}

void gemma_caps(const ConfigReader& c, ModelSpec& s) {
  double scalar = c.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) throw UserError("{}: 'query_pre_attn_scalar' must be above 0, is {}", c.source(), scalar);
  s.query_scale = 1 / std::sqrt(scalar);
  s.sandwich_norms = true;
  s.activation = c.activation({"hidden_activation"}, "gelu_pytorch_tanh");
}

void read_gemma2(const ConfigReader& c, ModelSpec& s) {
  c.read_common(s, {.tied = true, .head_dim = 256, .kv_heads = 4, .max_positions = 8192, .bos = 2, .eos = 1});
  gemma_block(c, s);
  gemma_caps(c, s);
  // Absent means the family's caps, null means none.
  s.attention_softcap = c.number("attn_logit_softcapping", c.is_null("attn_logit_softcapping") ? 0 : 50);
  s.final_softcap = c.number("final_logit_softcapping", c.is_null("final_logit_softcapping") ? 0 : 30);
  s.windows = c.windows(s, c.sliding_window(4096), [](std::int64_t layer) { return layer % 2 == 0; });
}

void read_gemma3(const ConfigReader& c, ModelSpec& s) {
  ConfigDefaults defaults{
      .tied = true, .head_dim = 256, .kv_heads = 4, .rope_theta = 1e6, .max_positions = 131072, .bos = 2, .eos = 1};
  c.read_common(s, defaults);
  gemma_block(c, s);
  gemma_caps(c, s);
  s.final_softcap = c.number("final_logit_softcapping", 0);  // no code reads attn_logit_softcapping
  s.qk_norm = true;
  std::int64_t pattern = c.integer("sliding_window_pattern", 6);
  if (pattern < 1) throw UserError("{}: 'sliding_window_pattern' must be above 0, is {}", c.source(), pattern);
  s.windows = c.windows(s, c.sliding_window(4096), [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  s.has_local_rope = true;
  defaults.rope_theta = 10000;
  s.rope_local = c.read_rope_of("sliding_attention", "rope_local_base_freq", s, defaults);
}

void read_phi3(const ConfigReader& c, ModelSpec& s) {
  c.read_common(s, {.norm_eps = 1e-5, .partial_rotary = 1, .max_positions = 4096, .bos = 1, .eos = 32000});
  s.fused_qkv = s.fused_gate_up = true;
  s.activation = c.activation({"hidden_act"}, "silu");
  s.windows = c.same_windows(s, c.sliding_window(0));
}

void read_stablelm(const ConfigReader& c, ModelSpec& s) {
  s.norm = NormKind::layer;
  s.norm_bias = true;
  c.read_common(s,
                {.norm_eps = 1e-5, .kv_heads = 32, .partial_rotary = 0.25, .max_positions = 4096, .bos = 0, .eos = 0});
  if (s.head_dim * s.heads != s.hidden)
    throw UserError("{}: 'head_dim' is {}, but heads of a stablelm are hidden_size / num_attention_heads wide",
                    c.source(), s.head_dim);
  s.qkv_bias = c.boolean("use_qkv_bias", false);
  s.qk_head_norms = c.boolean("qk_layernorm", false);
  s.parallel_residual = s.shared_input_norm = c.boolean("use_parallel_residual", false);
  s.activation = c.activation({"hidden_act"}, "silu");
}

void read_olmo2(const ConfigReader& c, ModelSpec& s) {
  c.read_common(s, {.norm_eps = 1e-5, .max_positions = 2048, .bos = -1, .eos = 50279});
  s.qkv_bias = s.out_bias = c.boolean("attention_bias", false);
  s.norm_after = true;
  s.qk_norm = s.qk_norm_whole = true;
  s.activation = c.activation({"hidden_act"}, "silu");
}

void read_gpt2(const ConfigReader& c, ModelSpec& s) {
  s.vocab = c.required("vocab_size");
  // transformers takes the names of the other families as well.
  auto size = [&](const char* name, const char* other) {
    return c.required(!c.has(name) && c.has(other) ? other : name);
  };
  s.hidden = size("n_embd", "hidden_size");
  s.layers = size("n_layer", "num_hidden_layers");
  s.heads = s.kv_heads = size("n_head", "num_attention_heads");
  for (const char* key : {"n_positions", "max_position_embeddings", "n_ctx"})
    if (s.max_positions = c.integer(key, 1024); c.has(key)) break;
  s.ffn = c.integer("n_inner", 4 * (s.hidden < (1 << 20) ? s.hidden : 0));
  if (s.hidden < 1 || s.heads < 1) s.check(c.source());
  if (s.hidden % s.heads != 0)
    throw UserError("{}: n_embd {} is not divisible by {} heads", c.source(), s.hidden, s.heads);
  s.head_dim = s.hidden / s.heads;
  s.norm = NormKind::layer;
  s.norm_bias = s.qkv_bias = s.out_bias = s.mlp_bias = true;
  s.norm_eps = c.number("layer_norm_epsilon", 1e-5);
  s.gated = false;
  if (!c.boolean("scale_attn_weights", true)) s.query_scale = 1;
  s.inverse_layer_scale = c.boolean("scale_attn_by_inverse_layer_idx", false);
  s.activation = c.activation({"activation_function"}, "gelu_new");
  s.use_rope = false;
  s.learned_positions = s.conv1d_layout = s.fused_qkv = true;
  s.tied = c.boolean("tie_word_embeddings", true);
  s.init_range = c.number("initializer_range", 0.02);
  Token end = s.vocab > 50256 ? 50256 : -1;
  s.bos = c.token("bos_token_id", end);
  s.eos = c.tokens("eos_token_id", end);
  s.pad = c.token("pad_token_id", -1);
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {"llama", "LlamaForCausalLM", "Llama 1-3.x, TinyLlama, SmolLM, Yi", read_llama},
      {"mistral", "MistralForCausalLM", "Mistral: Llama with a sliding window", read_mistral},
      {"qwen2", "Qwen2ForCausalLM", "Qwen 2 and 2.5: biases on q, k, v", read_qwen2},
      {"qwen3", "Qwen3ForCausalLM", "Qwen 3: norms on q and k", read_qwen3},
      {"gemma", "GemmaForCausalLM", "Gemma 1: scaled embeddings, norms 1 + w, GELU", read_gemma},
      {"gemma2", "Gemma2ForCausalLM", "Gemma 2: soft-caps, four norms, alternating windows", read_gemma2},
      {"gemma3_text", "Gemma3ForCausalLM", "Gemma 3, text: two rotary bases, norms on q and k", read_gemma3},
      {"phi3", "Phi3ForCausalLM", "Phi 3, 3.5 and 4: fused tensors, longrope", read_phi3},
      {"stablelm", "StableLmForCausalLM", "StableLM: LayerNorm, partial rotary, parallel residual", read_stablelm},
      {"olmo2", "Olmo2ForCausalLM", "OLMo 2: norms behind the blocks", read_olmo2},
      {"gpt2", "GPT2LMHeadModel", "GPT-2: learned positions, LayerNorm, no gate", read_gpt2},
  };
  return table;
}

}  // namespace dml
