// Reads the parts of config.json that all families share: sizes under their two spellings, rotary embedding in both
// forms (rope_theta + rope_scaling, and rope_parameters), attention windows, token ids. What differs by family is in
// families/.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/json.h"
#include "model/spec.h"

namespace dml {

/// A family's defaults in transformers, and its spelling of keys.
struct ConfigDefaults {
  double norm_eps = 1e-6;
  bool tied = false;
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t kv_heads = 0;  // 0: as many as heads
  double rope_theta = 10000;
  double partial_rotary = 0;  // fraction of a head that is rotated; 0: always 1, the key is not read
  std::int64_t max_positions = 2048;
  Token bos = 1, eos = 2;  // −1: none
  const char* activation = "silu";
  const char *eps_key = "rms_norm_eps", *activation_key = "hidden_act";
  const char *kv_key = "num_key_value_heads", *ffn_key = "intermediate_size";
  const char *theta_key = "rope_theta", *partial_key = "partial_rotary_factor";
  bool derived_head_dim = false;  // head_dim is always hidden / heads; the key is not read
  bool ffn_of_hidden = false;     // the default MLP width is 4 · hidden
  bool ropes_of_layers = false;   // "rope_parameters" may have an object per layer type
  bool phi3_rope = false;  // only longrope, called yarn in early releases; its original length is 4096 if not given
  bool ntk_alpha = false;  // HunYuan: "dynamic" with "alpha" is a larger fixed base
  RopeSpec rope = {};      // the rope if the config has no rope parameters (Apertus)
};

class ConfigReader {
 public:
  ConfigReader(const Json& config, std::string source) : config_(config), source_(std::move(source)) {}

  const std::string& source() const { return source_; }
  /// Whether the family reads this key, so that it takes effect.
  bool asked(const std::string& key) const { return asked_.contains(key); }
  const std::set<std::string>& asked_keys() const { return asked_; }
  /// Whether the key is present and not null.
  bool has(const char* key) const;
  /// The value of a present key.
  const Json& at(const char* key) const { return config_[note(key)]; }
  /// Whether the key is present and null, which for some keys differs from absent.
  bool is_null(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t fallback) const {
    return json_integer(config_, note(key), fallback, source_);
  }
  std::int64_t required(const char* key) const;
  double number(const char* key, double fallback) const { return json_number(config_, note(key), fallback, source_); }
  bool boolean(const char* key, bool fallback) const { return json_bool(config_, note(key), fallback, source_); }
  std::string text(const char* key, std::string_view fallback) const {
    return json_string(config_, note(key), fallback, source_);
  }

  /// A list of integers; empty if absent.
  std::vector<std::int64_t> integers(const char* key) const;

  /// "dtype" or "torch_dtype"; "float32" if both are absent.
  std::string dtype() const;
  /// The activation named by the first present key. UserError for an unsupported one.
  kernels::Activation activation(std::initializer_list<const char*> keys, std::string_view fallback) const;
  /// A token id; −1 if null, `fallback` if absent.
  Token token(const char* key, Token fallback) const;
  std::vector<Token> tokens(const char* key, Token fallback) const;

  /// Reads sizes, the epsilon of norms, token ids and rotary embedding of Llama-like families.
  void read_common(ModelSpec& spec, const ConfigDefaults& defaults) const;
  RopeSpec read_rope(const ModelSpec& spec, const ConfigDefaults& defaults) const;
  /// The rotary embedding of one layer type ("sliding_attention") in nested rope_parameters. Without an entry of its
  /// own, it is unscaled, with its base from `theta_key` or else the defaults.
  RopeSpec read_rope_of(const char* layer_type, const char* theta_key, const ModelSpec& spec,
                        const ConfigDefaults& defaults) const;

  /// Whether "rope_parameters" has an object per layer type.
  bool nested_ropes() const;

  /// The window, above 0; `fallback` if absent, 0 if null.
  std::int64_t sliding_window(std::int64_t fallback) const;
  /// `window` on every layer, for families that do not read "layer_types" in transformers. UserError when that key
  /// contradicts it.
  std::vector<std::int64_t> same_windows(const ModelSpec& spec, std::int64_t window) const;
  /// `window` on the layers that "layer_types" calls sliding, or, without that key, those with is_sliding(layer).
  template <class F>
  std::vector<std::int64_t> windows(const ModelSpec& spec, std::int64_t window, F is_sliding) const {
    if (has("layer_types")) return windows_of_types(spec, window);
    std::vector<std::int64_t> out(static_cast<std::size_t>(spec.layers), 0);
    bool any = false;
    for (std::int64_t i = 0; i < spec.layers; ++i)
      if (window > 0 && is_sliding(i)) out[static_cast<std::size_t>(i)] = window, any = true;
    return any ? out : std::vector<std::int64_t>{};
  }

 private:
  const char* note(const char* key) const { return asked_.insert(key), key; }
  std::vector<std::int64_t> windows_of_types(const ModelSpec& spec, std::int64_t window) const;
  RopeSpec rope_from(const Json& object, const char* where, const char* theta_key, const ModelSpec& spec,
                     const ConfigDefaults& defaults) const;
  void read_scaling(RopeSpec& rope, const Json& object, const std::string& place, bool beside,
                    const ModelSpec& spec) const;

  const Json& config_;
  std::string source_;
  mutable std::set<std::string> asked_;
};

/// The activation's name in transformers: "silu" ….
std::string activation_name(kernels::Activation activation);

}  // namespace dml
