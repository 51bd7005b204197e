// Gemma 1 to 3: scaled embeddings, norms 1 + w; from Gemma 2 on four norms, soft-caps, windows.
#include <cmath>

#include "checkpoint/families/groups.h"
#include "core/bf16.h"
#include "core/error.h"
#include "core/log.h"

namespace dml {
namespace {

constexpr Naming kSandwich{.post_attention_norm = "post_attention_layernorm",
                           .pre_ffn_norm = "pre_feedforward_layernorm",
                           .post_ffn_norm = "post_feedforward_layernorm"};

/// sqrt(hidden) as a number of the type the model is stored in, as the original multiplies.
double gemma_scale(const ConfigReader& c, const ModelSpec& s) {
  auto scale = static_cast<float>(std::sqrt(static_cast<double>(s.hidden)));
  if (c.dtype() == "bfloat16") return to_float(to_bf16(scale));
  if (c.dtype() == "float16") return to_float(to_f16(scale));
  return scale;
}

void gemma_block(ConfigFields& c, ModelSpec& s) {
  s.norm.offset = 1;
  if (auto* from = c.reader()) s.embedding_scale = gemma_scale(*from, s);
  c.attention_bias(s);
}

void gemma(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.tied = true,
               .head_dim = 256,
               .kv_heads = 16,
               .max_positions = 8192,
               .bos = 2,
               .eos = 1,
               .activation = "gelu_pytorch_tanh"});
  gemma_block(c, s);
  // transformers 5 reads 'hidden_act' alone; 4.39 to 4.47 read the other one, which Gemma 2 has.
  if (Json* to = c.writer()) (*to)["hidden_activation"] = activation_name(s.activation);
  auto* from = c.reader();
  if (from && from->has("hidden_activation") && from->activation({"hidden_activation"}, "") != s.activation)
    log_warning("{}: 'hidden_act' and 'hidden_activation' differ; as in transformers 5, the first counts: {}",
                from->source(), activation_name(s.activation));
}

ConfigDefaults gemma2_defaults() {
  return {.tied = true,
          .head_dim = 256,
          .kv_heads = 4,
          .max_positions = 8192,
          .bos = 2,
          .eos = 1,
          .activation = "gelu_pytorch_tanh",
          .activation_key = "hidden_activation"};
}

void query_scalar(ConfigFields& c, ModelSpec& s) {
  double scalar = 1 / (s.scores.scale * s.scores.scale);
  c.number("query_pre_attn_scalar", scalar, 256);
  if (auto* from = c.reader(); from && !(scalar > 0))
    throw UserError("{}: 'query_pre_attn_scalar' must be above 0, is {}", from->source(), scalar);
  s.scores.scale = 1 / std::sqrt(scalar);
}

void gemma2(ConfigFields& c, ModelSpec& s) {
  c.common(s, gemma2_defaults());
  gemma_block(c, s);
  query_scalar(c, s);
  c.cap("attn_logit_softcapping", s.scores.softcap, 50);
  c.cap("final_logit_softcapping", s.final_softcap, 30);
  c.windows(s, 4096, [](std::int64_t layer) { return layer % 2 == 0; });
}

void gemma3(ConfigFields& c, ModelSpec& s) {
  ConfigDefaults defaults = gemma2_defaults();
  defaults.rope_theta = 1e6, defaults.max_positions = 131072, defaults.ropes_of_layers = true;
  c.common(s, defaults);
  gemma_block(c, s);
  query_scalar(c, s);
  c.cap("final_logit_softcapping", s.final_softcap, 0);  // no code reads attn_logit_softcapping
  s.qk_norm.over = QkNormSpec::Over::head;
  std::int64_t pattern = 6;
  if (auto* from = c.reader()) {
    pattern = from->integer("sliding_window_pattern", 6);
    if (pattern < 1) throw UserError("{}: 'sliding_window_pattern' must be above 0, is {}", from->source(), pattern);
  }
  c.windows(s, 4096, [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  defaults.rope_theta = 10000;
  if (auto* from = c.reader())
    s.rope_local = from->read_rope_of("sliding_attention", "rope_local_base_freq", s, defaults);
  else (*c.writer())["rope_local_base_freq"] = s.rope_local->theta;
}

// As transformers saves Gemma 3 with its vision tower, and as its own modules are called.
constexpr Naming kVisionModules = [] {
  Naming n = kSandwich;
  n.embed = "model.language_model.embed_tokens", n.layers = "model.language_model.layers";
  n.final_norm = "model.language_model.norm";
  return n;
}();
constexpr Naming kVisionFiles = [] {
  Naming n = kSandwich;
  n.embed = "language_model.model.embed_tokens", n.layers = "language_model.model.layers";
  n.final_norm = "language_model.model.norm", n.head = "language_model.lm_head";
  n.file_prefix = "language_model.model.", n.module_prefix = "model.language_model.";
  n.alternative = &kVisionModules;
  return n;
}();
constexpr Wrapper kWrappers[] = {{"gemma3",
                                  "Gemma3ForConditionalGeneration",
                                  "gemma3_text",
                                  &kVisionFiles,
                                  {{"vocab_size", 262208},
                                   {"hidden_size", 2304},
                                   {"intermediate_size", 9216},
                                   {"num_hidden_layers", 26},
                                   {"num_attention_heads", 8}}}};

}  // namespace

const Wrapper* find_wrapper(std::string_view model_type) {
  for (const Wrapper& w : kWrappers)
    if (w.model_type == model_type) return &w;
  return nullptr;
}

FamilyGroup gemma_families() {
  return {
      {"gemma", "GemmaForCausalLM", "Gemma 1: scaled embeddings, norms 1 + w, GELU", gemma},
      {"gemma2", "Gemma2ForCausalLM", "Gemma 2: soft-caps, four norms, alternating windows", gemma2, &kSandwich},
      {"gemma3_text", "Gemma3ForCausalLM", "Gemma 3, text: two rotary bases, norms on q and k", gemma3, &kSandwich},
  };
}

}  // namespace dml
