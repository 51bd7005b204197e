// GPT-2.
#include "checkpoint/families/groups.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr Naming kGpt2{.embed = "transformer.wte",
                       .positions = "transformer.wpe",
                       .layers = "transformer.h",
                       .final_norm = "transformer.ln_f",
                       .input_norm = "ln_1",
                       .pre_ffn_norm = "ln_2",
                       .o = "attn.c_proj",
                       .qkv = "attn.c_attn",
                       .up = "mlp.c_fc",
                       .down = "mlp.c_proj",
                       .targets = {"c_attn"}};

void read_gpt2(const ConfigReader& c, ModelSpec& s) {
  // transformers takes the names of the other families as well.
  auto size = [&](const char* name, const char* other) {
    return c.required(!c.has(name) && c.has(other) ? other : name);
  };
  s.vocab = c.required("vocab_size");
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
  s.activation = c.activation({"activation_function"}, "gelu_new");
  s.tied = c.boolean("tie_word_embeddings", true);
  s.init_range = c.number("initializer_range", 0.02);
  Token end = s.vocab > 50256 ? 50256 : -1;
  s.bos = c.token("bos_token_id", end);
  s.eos = c.tokens("eos_token_id", end);
  s.pad = c.token("pad_token_id", -1);
}

void gpt2(ConfigFields& c, ModelSpec& s) {
  if (Json* to = c.writer()) {
    Json& j = *to;
    j["n_embd"] = s.hidden;
    j["n_inner"] = s.ffn;
    j["n_layer"] = s.layers;
    j["n_head"] = s.heads;
    j["n_positions"] = s.max_positions;
  } else {
    read_gpt2(*c.reader(), s);
  }
  c.number("layer_norm_epsilon", s.norm_eps, 1e-5);
  bool scaled = s.query_scale == 0;
  c.flag("scale_attn_weights", scaled, true);
  if (!scaled) s.query_scale = 1;
  c.flag("scale_attn_by_inverse_layer_idx", s.inverse_layer_scale, false);
  if (Json* to = c.writer())
    (*to)["activation_function"] =
        s.activation == kernels::Activation::gelu_tanh ? "gelu_new" : activation_name(s.activation);
  s.norm = NormKind::layer;
  s.norm_bias = s.qkv_bias = s.out_bias = s.mlp_bias = true;
  s.gated = false;
  s.use_rope = false;
  s.learned_positions = s.conv1d_layout = s.fused_qkv = true;
}

}  // namespace

FamilyGroup gpt_families() {
  return {{"gpt2", "GPT2LMHeadModel", "GPT-2: learned positions, LayerNorm, no gate", gpt2, &kGpt2}};
}

}  // namespace dml
