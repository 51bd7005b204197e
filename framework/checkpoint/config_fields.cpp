#include "checkpoint/config_fields.h"

#include <algorithm>

#include "core/error.h"

namespace dml {
namespace {

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
      if (r.mscale_all_dim != 0) j["mscale_all_dim"] = r.mscale_all_dim;
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

std::int64_t largest_window(const ModelSpec& s) { return s.windows.empty() ? 0 : std::ranges::max(s.windows); }

Json window_json(std::int64_t window) { return window > 0 ? Json(window) : Json(nullptr); }

}  // namespace

void ConfigFields::common(ModelSpec& s, const ConfigDefaults& defaults) {
  defaults_ = defaults;
  if (from_) return from_->read_common(s, defaults);
  Json& j = *to_;
  j["hidden_size"] = s.hidden;
  j[defaults.ffn_key] = s.ffn;
  j["num_hidden_layers"] = s.layers;
  j["num_attention_heads"] = s.heads;
  j[defaults.kv_key] = s.kv_heads;
  j["head_dim"] = s.head_dim;
  j["max_position_embeddings"] = s.max_positions;
  j[defaults.eps_key] = s.norm.eps;
  j[defaults.activation_key] = activation_name(s.activation);
}

void ConfigFields::flag(const char* key, bool& value, bool fallback) {
  if (from_) value = from_->boolean(key, fallback);
  else (*to_)[key] = value;
}

void ConfigFields::integer(const char* key, std::int64_t& value, std::int64_t fallback) {
  if (from_) value = from_->integer(key, fallback);
  else (*to_)[key] = value;
}

void ConfigFields::number(const char* key, double& value, double fallback) {
  if (from_) value = from_->number(key, fallback);
  else (*to_)[key] = value;
}

void ConfigFields::positive(const char* key, double& value, double fallback) {
  number(key, value, fallback);
  if (from_ && !(value > 0 && value <= 1e6))
    throw UserError("{}: '{}' must be above 0 and at most 1e6, is {}", from_->source(), key, value);
}

void ConfigFields::cap(const char* key, double& value, double fallback) {
  if (from_) value = from_->number(key, from_->is_null(key) ? 0 : fallback);
  else (*to_)[key] = value > 0 ? Json(value) : Json(nullptr);
}

void ConfigFields::attention_bias(ModelSpec& s, const char* key, bool fallback) {
  flag(key, s.bias.qkv, fallback);
  s.bias.out = s.bias.qkv;
}

void ConfigFields::qk_norm(ModelSpec& s, const char* key, QkNormSpec::Over over) {
  bool there{s.qk_norm};
  flag(key, there, false);
  s.qk_norm.over = there ? over : QkNormSpec::Over::none;
}

bool ConfigFields::windows_in_use(const ModelSpec& s) {
  bool used = !s.windows.empty();
  flag("use_sliding_window", used, false);
  if (from_ && !used) from_->windows(s, 0, [](std::int64_t) { return false; });
  return used;
}

void ConfigFields::same_windows(ModelSpec& s, std::int64_t fallback) {
  if (from_) s.windows = from_->same_windows(s, from_->sliding_window(fallback));
  else (*to_)["sliding_window"] = window_json(largest_window(s));
}

void ConfigFields::windows(ModelSpec& s, std::int64_t fallback, const std::function<bool(std::int64_t)>& is_sliding) {
  if (from_) {
    s.windows = from_->windows(s, from_->sliding_window(fallback), is_sliding);
    return;
  }
  const std::int64_t window = largest_window(s);
  (*to_)["sliding_window"] = window_json(window);
  Json types = Json::array();
  for (std::int64_t i = 0; i < s.layers; ++i)
    types.push_back(window > 0 && s.windows[static_cast<std::size_t>(i)] > 0 ? "sliding_attention" : "full_attention");
  (*to_)["layer_types"] = types;
}

void ConfigFields::finish(const ModelSpec& s) {
  if (s.positions != Positions::rope) return;
  Json& j = *to_;
  j[defaults_.theta_key] = s.rope.theta;
  j["rope_scaling"] = scaling_json(s.rope);
  if (s.rope.scaling == RopeScaling::none && defaults_.rope.scaling != RopeScaling::none)
    j["rope_scaling"] = Json{{"rope_type", "default"}};
  if (s.rope.scaling == RopeScaling::longrope) j["original_max_position_embeddings"] = s.rope.original_positions;
  const bool partial = defaults_.partial_rotary > 0 && defaults_.partial_rotary != 1;
  if (!s.latent && (s.rope.partial != 1 || partial)) j[defaults_.partial_key] = s.rope.partial;
}

}  // namespace dml
