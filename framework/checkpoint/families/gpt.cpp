// GPT-2 and MPT; and those whose q, k and v are one tensor, head by head: GPT-NeoX (Pythia), Falcon, BLOOM.
#include "checkpoint/families/groups.h"
#include "core/error.h"
#include "core/shown.h"

namespace dml {
namespace {

// How families older than Llama spell their sizes. transformers takes Llama's names as well.
struct OldKeys {
  const char *hidden, *layers, *heads, *positions, *ffn;
  std::int64_t most_positions = 2048;
  Token bos = -1, eos = -1;
};

void read_old_sizes(const ConfigReader& c, ModelSpec& s, const OldKeys& keys) {
  auto size = [&](const char* name, const char* other) {
    return c.required(!c.has(name) && c.has(other) ? other : name);
  };
  s.vocab = c.required("vocab_size");
  s.hidden = size(keys.hidden, "hidden_size");
  s.layers = size(keys.layers, "num_hidden_layers");
  s.heads = s.kv_heads = size(keys.heads, "num_attention_heads");
  for (const char* key : {keys.positions, "max_position_embeddings", "n_ctx"})
    if (s.max_positions = c.integer(key, keys.most_positions); c.has(key)) break;
  s.ffn = 4 * (s.hidden < (1 << 20) ? s.hidden : 0);
  if (keys.ffn) s.ffn = c.integer(keys.ffn, s.ffn);
  if (s.hidden < 1 || s.heads < 1) s.check(c.source());
  if (s.hidden % s.heads != 0)
    throw UserError("{}: {} {} is not divisible by {} heads", c.source(), keys.hidden, s.hidden, s.heads);
  s.head_dim = s.hidden / s.heads;
  s.tied = c.boolean("tie_word_embeddings", true);
  s.init_range = c.number("initializer_range", 0.02);
  s.bos = c.token("bos_token_id", keys.bos < s.vocab ? keys.bos : -1);
  s.eos = c.tokens("eos_token_id", keys.eos < s.vocab ? keys.eos : -1);
  s.pad = c.token("pad_token_id", -1);
}

void old_sizes(ConfigFields& c, ModelSpec& s, const OldKeys& keys) {
  if (const ConfigReader* from = c.reader()) {
    read_old_sizes(*from, s, keys);
  } else {
    Json& j = *c.writer();
    j[keys.hidden] = s.hidden;
    if (keys.ffn) j[keys.ffn] = s.ffn;
    j[keys.layers] = s.layers;
    j[keys.heads] = s.heads;
    j[keys.positions] = s.max_positions;
  }
  c.number("layer_norm_epsilon", s.norm.eps, 1e-5);
  s.norm.kind = NormKind::layer;
  s.gated = false;
}

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

void gpt2(ConfigFields& c, ModelSpec& s) {
  old_sizes(c, s, {"n_embd", "n_layer", "n_head", "n_positions", "n_inner", 1024, 50256, 50256});
  bool scaled = s.scores.scale == 0;
  c.flag("scale_attn_weights", scaled, true);
  if (!scaled) s.scores.scale = 1;
  c.flag("scale_attn_by_inverse_layer_idx", s.scores.by_layer, false);
  if (const ConfigReader* from = c.reader()) s.activation = from->activation({"activation_function"}, "gelu_new");
  else
    (*c.writer())["activation_function"] =
        s.activation == kernels::Activation::gelu_tanh ? "gelu_new" : activation_name(s.activation);
  s.norm.bias = s.bias.qkv = s.bias.out = s.bias.mlp = true;
  s.positions = Positions::learned;
  s.stored = {.qkv = StorageSpec::Qkv::stacked, .in_out = true};
}

constexpr Naming kMpt{.embed = "transformer.wte",
                      .layers = "transformer.blocks",
                      .final_norm = "transformer.norm_f",
                      .token_score = "classifier",
                      .input_norm = "norm_1",
                      .pre_ffn_norm = "norm_2",
                      .o = "attn.out_proj",
                      .qkv = "attn.Wqkv",
                      .up = "ffn.up_proj",
                      .down = "ffn.down_proj",
                      .targets = {"Wqkv"}};

// The settings of "attn_config" that transformers honors, and those that it has no code for.
void mpt_attention(const ConfigReader& c, ModelSpec& s) {
  if (!c.has("attn_config")) return;
  const Json& all = c.at("attn_config");
  const std::string place = c.source() + ": attn_config";
  if (!all.is_object()) throw UserError("{} must be an object, is {}", place, shown(dump(all), 60));
  s.scores.alibi_bias_max = json_number(all, "alibi_bias_max", 8, place);
  s.scores.scale = json_number(all, "softmax_scale", 0, place);
  if (!json_bool(all, "alibi", true, place))
    throw UserError("{}: 'alibi' is false; only an mpt with ALiBi is supported", place);
  if (json_bool(all, "qk_ln", false, place)) throw UserError("{}: 'qk_ln' is not supported", place);
  s.scores.clip = json_number(all, "clip_qkv", 0, place);
  if (const std::string type = json_string(all, "attn_type", "multihead_attention", place);
      type != "multihead_attention")
    throw UserError("{}: 'attn_type' is '{}', only 'multihead_attention' is supported", place, shown(type, 60));
}

void mpt(ConfigFields& c, ModelSpec& s) {
  old_sizes(c, s, {"d_model", "n_layers", "n_heads", "max_seq_len", nullptr});
  if (const ConfigReader* from = c.reader()) {
    const std::int64_t ratio = from->integer("expansion_ratio", 4);
    if (ratio < 1 || ratio > 64) throw UserError("{}: 'expansion_ratio' must be 1 to 64, is {}", from->source(), ratio);
    s.ffn = ratio * (s.hidden < (1 << 18) ? s.hidden : 0);
    if (!from->boolean("no_bias", true))
      throw UserError("{}: 'no_bias' is false; transformers' mpt has no biases", from->source());
    mpt_attention(*from, s);
  } else {
    Json& to = *c.writer();
    to["expansion_ratio"] = s.ffn / s.hidden;
    to["attn_config"] = {{"alibi", true},
                         {"alibi_bias_max", s.scores.alibi_bias_max},
                         {"clip_qkv", s.scores.clip > 0 ? Json(s.scores.clip) : Json(nullptr)},
                         {"softmax_scale", s.scores.scale > 0 ? Json(s.scores.scale) : Json(nullptr)}};
  }
  s.activation = kernels::Activation::gelu;
  s.positions = Positions::alibi;
  s.stored.qkv = StorageSpec::Qkv::stacked;
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

// Falcon with one LayerNorm for both blocks, two before each other, or, from 40B on, one for each.
constexpr Naming kFalcon = [] {
  Naming n = kNeox;
  n.embed = "transformer.word_embeddings", n.layers = "transformer.h", n.final_norm = "transformer.ln_f";
  n.head = Naming{}.head;
  n.o = "self_attention.dense", n.qkv = "self_attention.query_key_value";
  return n;
}();
constexpr Naming kFalconTwoNorms = [] {
  Naming n = kFalcon;
  n.input_norm = "ln_attn", n.pre_ffn_norm = "ln_mlp";
  return n;
}();

// Falcon's names, and a norm after the embedding.
constexpr Naming kBloom = [] {
  Naming n = kFalcon;
  n.embed_norm = "transformer.word_embeddings_layernorm";
  return n;
}();

void bloom(ConfigFields& c, ModelSpec& s) {
  const bool first_spelling = c.reader() && c.reader()->has("n_embed");  // of BigScience's own files
  old_sizes(c, s, {first_spelling ? "n_embed" : "hidden_size", "n_layer", "n_head", "seq_length", nullptr, 2048, 1, 2});
  bool behind = false;
  c.flag("apply_residual_connection_post_layernorm", behind, false);
  if (behind)
    throw UserError("{}: 'apply_residual_connection_post_layernorm' is true, which is not supported",
                    c.reader()->source());
  s.norm.bias = s.bias.qkv = s.bias.out = s.bias.mlp = true;
  s.activation = kernels::Activation::gelu_tanh;
  s.positions = Positions::alibi;
  s.stored.qkv = StorageSpec::Qkv::by_head;
}

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
      {"bloom", "BloomForCausalLM", "BLOOM: ALiBi, a norm after the embedding", bloom, &kBloom},
      {"mpt", "MptForCausalLM", "MPT: ALiBi, no biases", mpt, &kMpt},
  };
}

}  // namespace dml
