// GPT-2; and those whose q, k and v are one tensor, head by head: GPT-NeoX (Pythia), Falcon.
#include "checkpoint/families/groups.h"
#include "core/error.h"

namespace dml {
namespace {

constexpr Naming kGpt2{.embed = "transformer.wte",
                       .positions = "transformer.wpe",
                       .layers = "transformer.h",
                       .final_norm = "transformer.ln_f",
                       .token_score = "classifier",
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
  c.number("layer_norm_epsilon", s.norm.eps, 1e-5);
  bool scaled = s.scores.scale == 0;
  c.flag("scale_attn_weights", scaled, true);
  if (!scaled) s.scores.scale = 1;
  c.flag("scale_attn_by_inverse_layer_idx", s.scores.by_layer, false);
  if (Json* to = c.writer())
    (*to)["activation_function"] =
        s.activation == kernels::Activation::gelu_tanh ? "gelu_new" : activation_name(s.activation);
  layer_norm(s);
  s.bias.qkv = s.bias.out = s.bias.mlp = true;
  s.gated = false;
  s.positions = Positions::learned;
  s.stored = {.qkv = StorageSpec::Qkv::stacked, .in_out = true};
}

constexpr Naming kNeox{.embed = "gpt_neox.embed_in",
                       .layers = "gpt_neox.layers",
                       .final_norm = "gpt_neox.final_layer_norm",
                       .head = "embed_out",
                       .token_score = "classifier",
                       .o = "attention.dense",
                       .qkv = "attention.query_key_value",
                       .up = "mlp.dense_h_to_4h",
                       .down = "mlp.dense_4h_to_h",
                       .targets = {"query_key_value"}};

void gpt_neox(ConfigFields& c, ModelSpec& s) {
  layer_norm(s);
  c.common(s, {.norm_eps = 1e-5,
               .partial_rotary = 0.25,
               .max_positions = 2048,
               .bos = 0,
               .eos = 2,
               .activation = "gelu",
               .eps_key = "layer_norm_eps",
               .theta_key = "rotary_emb_base",
               .partial_key = "rotary_pct",
               .derived_head_dim = true});
  s.kv_heads = s.heads;
  c.attention_bias(s, "attention_bias", true);
  c.flag("use_parallel_residual", s.residual.parallel, true);
  s.bias.mlp = true;
  s.gated = false;
  s.stored.qkv = StorageSpec::Qkv::by_head;
}

// Falcon with one LayerNorm for both blocks, two in front of each other, or, from 40B on, one for each.
constexpr Naming kFalcon{.embed = "transformer.word_embeddings",
                         .layers = "transformer.h",
                         .final_norm = "transformer.ln_f",
                         .token_score = "classifier",
                         .o = "self_attention.dense",
                         .qkv = "self_attention.query_key_value",
                         .up = "mlp.dense_h_to_4h",
                         .down = "mlp.dense_4h_to_h",
                         .targets = {"query_key_value"}};
constexpr Naming kFalconTwoNorms = [] {
  Naming n = kFalcon;
  n.input_norm = "ln_attn", n.pre_ffn_norm = "ln_mlp";
  return n;
}();

void falcon(ConfigFields& c, ModelSpec& s) {
  layer_norm(s);
  c.common(s, {.norm_eps = 1e-5,
               .tied = true,
               .max_positions = 2048,
               .bos = 11,
               .eos = 11,
               .activation = "gelu",
               .eps_key = "layer_norm_epsilon",
               .activation_key = "activation",
               .kv_key = "num_kv_heads",
               .ffn_key = "ffn_hidden_size",
               .derived_head_dim = true,
               .ffn_of_hidden = true});
  // The writer spells what was read: groups of heads as "new_decoder_architecture", one as "multi_query".
  bool grouped = s.naming == &kFalconTwoNorms || (s.kv_heads != 1 && s.kv_heads != s.heads);
  bool multi_query = s.kv_heads == 1, parallel = s.residual.parallel;
  c.flag("new_decoder_architecture", grouped, false);
  c.flag("multi_query", multi_query, true);
  c.flag("parallel_attn", parallel, true);
  std::int64_t norms = s.naming == &kFalconTwoNorms ? 2 : 1;
  if (auto* from = c.reader()) norms = from->integer("num_ln_in_parallel_attn", grouped ? 2 : 1);
  else if (grouped) (*c.writer())["num_ln_in_parallel_attn"] = norms;
  if (c.reader() && !grouped) s.kv_heads = multi_query ? 1 : s.heads;
  c.attention_bias(s, "bias");
  s.bias.mlp = s.bias.qkv;
  s.residual.parallel = parallel || grouped;
  s.residual.shared_norm = s.residual.parallel && !(grouped && norms == 2);
  if (grouped && norms == 2) s.naming = &kFalconTwoNorms;
  s.gated = false;
  s.stored.qkv = StorageSpec::Qkv::by_head;
}

}  // namespace

FamilyGroup gpt_families() {
  return {
      {"gpt2", "GPT2LMHeadModel", "GPT-2: learned positions, LayerNorm, no gate", gpt2, &kGpt2},
      {"gpt_neox", "GPTNeoXForCausalLM", "GPT-NeoX, Pythia: LayerNorm, partial rotary, parallel residual", gpt_neox,
       &kNeox},
      {"falcon", "FalconForCausalLM", "Falcon: shared keys and values, parallel residual, no gate", falcon, &kFalcon},
  };
}

}  // namespace dml
