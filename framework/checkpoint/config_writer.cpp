// ModelSpec → config.json, in the dialect that every transformers from 4.30 on reads (torch_dtype, rope_theta,
// rope_scaling). read_model_config() of the result gives the same spec: tests/checkpoint/model_config_test.cpp.
#include <cmath>

#include "checkpoint/config_reader.h"
#include "checkpoint/model_config.h"
#include "core/error.h"

namespace dml {
namespace {

Json id_or_null(Token id) { return id < 0 ? Json(nullptr) : Json(id); }

Json ids(const std::vector<Token>& list) {
  if (list.empty()) return nullptr;
  return list.size() == 1 ? Json(list[0]) : Json(list);
}

Json scaling_json(const RopeSpec& r) {
  Json j = Json::object();
  switch (r.scaling) {
    case RopeScaling::none:
      return nullptr;
    case RopeScaling::linear:
      j["rope_type"] = "linear";
      break;
    case RopeScaling::dynamic:
      j["rope_type"] = "dynamic";
      break;
    case RopeScaling::llama3:
      j["rope_type"] = "llama3";
      j["low_freq_factor"] = r.low_freq_factor;
      j["high_freq_factor"] = r.high_freq_factor;
      break;
    case RopeScaling::yarn:
      j["rope_type"] = "yarn";
      j["beta_fast"] = r.beta_fast;
      j["beta_slow"] = r.beta_slow;
      if (!r.truncate) j["truncate"] = false;
      break;
    case RopeScaling::longrope:
      j["rope_type"] = "longrope";
      j["long_factor"] = r.long_factor;
      j["short_factor"] = r.short_factor;
      break;
  }
  j["factor"] = r.factor;
  if (r.attention_factor != 0) j["attention_factor"] = r.attention_factor;
  if (r.scaling != RopeScaling::linear && r.scaling != RopeScaling::dynamic)
    j["original_max_position_embeddings"] = r.original_positions;
  return j;
}

void write_windows(const ModelSpec& s, Json& j) {
  std::int64_t window = 0;
  for (auto w : s.windows) window = std::max(window, w);
  bool qwen = s.model_type == "qwen2" || s.model_type == "qwen3";
  bool knows_windows = qwen || s.model_type == "mistral" || s.model_type == "phi3" || s.model_type.starts_with("gemma");
  if (!knows_windows || s.model_type == "gemma") return;
  if (qwen) j["use_sliding_window"] = window > 0;
  j["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  if (!qwen && !s.model_type.starts_with("gemma")) return;  // no layer_types in these
  if (qwen && window == 0) return;
  Json types = Json::array();
  for (std::int64_t i = 0; i < s.layers; ++i)
    types.push_back(!s.windows.empty() && s.windows[static_cast<std::size_t>(i)] > 0 ? "sliding_attention"
                                                                                     : "full_attention");
  j["layer_types"] = types;
}

void write_gpt2(const ModelSpec& s, Json& j) {
  j["n_embd"] = s.hidden;
  j["n_inner"] = s.ffn;
  j["n_layer"] = s.layers;
  j["n_head"] = s.heads;
  j["n_positions"] = s.max_positions;
  j["layer_norm_epsilon"] = s.norm_eps;
  j["scale_attn_weights"] = s.query_scale == 0;
  j["scale_attn_by_inverse_layer_idx"] = s.inverse_layer_scale;
  j["activation_function"] =
      s.activation == kernels::Activation::gelu_tanh ? "gelu_new" : activation_name(s.activation);
}

void write_llama_like(const ModelSpec& s, Json& j) {
  bool is_gemma = s.model_type.starts_with("gemma");
  j["hidden_size"] = s.hidden;
  j["intermediate_size"] = s.ffn;
  j["num_hidden_layers"] = s.layers;
  j["num_attention_heads"] = s.heads;
  j["num_key_value_heads"] = s.kv_heads;
  j["head_dim"] = s.head_dim;
  j["max_position_embeddings"] = s.max_positions;
  j[s.norm == NormKind::layer ? "layer_norm_eps" : "rms_norm_eps"] = s.norm_eps;
  if (is_gemma) j["hidden_activation"] = activation_name(s.activation);
  j["hidden_act"] = activation_name(s.activation);
  if (s.model_type == "stablelm") {
    j["use_qkv_bias"] = s.qkv_bias;
    j["qk_layernorm"] = s.qk_head_norms;
    j["use_parallel_residual"] = s.parallel_residual;
  } else if (s.model_type != "qwen2" && s.model_type != "mistral" && s.model_type != "phi3") {
    j["attention_bias"] = s.qkv_bias;
  }
  if (s.model_type == "llama") j["mlp_bias"] = s.mlp_bias;
  if (s.sandwich_norms) {
    j["query_pre_attn_scalar"] = 1 / (s.query_scale * s.query_scale);
    j["attn_logit_softcapping"] = s.attention_softcap > 0 ? Json(s.attention_softcap) : Json(nullptr);
    j["final_logit_softcapping"] = s.final_softcap > 0 ? Json(s.final_softcap) : Json(nullptr);
  }
  j["rope_theta"] = s.rope.theta;
  j["rope_scaling"] = scaling_json(s.rope);
  if (s.rope.scaling == RopeScaling::longrope) j["original_max_position_embeddings"] = s.rope.original_positions;
  if (s.rope.partial != 1 || s.model_type == "stablelm") j["partial_rotary_factor"] = s.rope.partial;
  if (s.has_local_rope) j["rope_local_base_freq"] = s.rope_local.theta;
  write_windows(s, j);
}

}  // namespace

Json config_json(const ModelSpec& spec, const std::string& dtype) {
  Json j = Json::object();
  for (auto& f : families())
    if (f.model_type == spec.model_type) j["architectures"] = Json::array({f.architecture});
  DML_CHECK(j.contains("architectures"), "no family '{}'", spec.model_type);
  j["model_type"] = spec.model_type;
  j["vocab_size"] = spec.vocab;
  spec.model_type == "gpt2" ? write_gpt2(spec, j) : write_llama_like(spec, j);
  j["tie_word_embeddings"] = spec.tied;
  j["initializer_range"] = spec.init_range;
  j["bos_token_id"] = id_or_null(spec.bos);
  j["eos_token_id"] = ids(spec.eos);
  j["pad_token_id"] = id_or_null(spec.pad);
  j["torch_dtype"] = dtype;
  j["use_cache"] = true;
  return j;
}

namespace {

// A change of the rope in version 4's keys, where the config has version 5's: beside rope_parameters, transformers would
// overlook rope_theta, and take rope_scaling without the base that stands in rope_parameters.
bool change_rope_parameters(Json& config, const std::string& key, const Json& value) {
  auto all = config.find("rope_parameters");
  if (all == config.end() || !all->is_object() || all->empty()) return false;
  Json& rope = all->contains("full_attention") ? (*all)["full_attention"] : *all;
  if (key == "rope_theta" || key == "partial_rotary_factor") {
    rope[key] = value;
  } else if (key == "rope_scaling" && (value.is_object() || value.is_null())) {
    Json kept = Json::object();
    for (const char* base : {"rope_theta", "partial_rotary_factor"})
      if (rope.contains(base)) kept[base] = rope[base];
    kept.update(value.is_null() ? Json{{"rope_type", "default"}} : value);
    rope = kept;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Json rewrite_config(const Json& original, const Json& changes) {
  bool new_dialect = original.contains("dtype") || original.contains("rope_parameters");
  Json out = original;
  for (auto& [key, value] : changes.items()) {
    if (change_rope_parameters(out, key, value)) continue;
    out[key == "dtype" && !new_dialect ? "torch_dtype" : key] = value;
    if (key == "rope_parameters") out.erase("rope_scaling");  // which would win
  }
  return out;
}

}  // namespace dml
