// The parts of config.json that all families share: sizes under their two spellings, rotary embedding in both dialects
// (rope_theta + rope_scaling, and rope_parameters), attention windows, ids. The families' quirks are in families/.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/json.h"
#include "model/spec.h"

namespace dml {

/// Defaults of transformers for a family, and its spelling of keys.
struct ConfigDefaults {
  double norm_eps = 1e-6;
  bool tied = false;
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t kv_heads = 0;  // 0: as many as heads
  double rope_theta = 10000;
  double partial_rotary = 0;  // share of a head that turns; 0: always 1, whatever the config says
  std::int64_t max_positions = 2048;
  Token bos = 1, eos = 2;  // −1: none
  const char* activation = "silu";
  const char *eps_key = "rms_norm_eps", *activation_key = "hidden_act";
  const char *kv_key = "num_key_value_heads", *ffn_key = "intermediate_size";
  const char *theta_key = "rope_theta", *partial_key = "partial_rotary_factor";
  bool derived_head_dim = false;  // heads are hidden / heads wide, whatever the config says
  bool ffn_of_hidden = false;     // an MLP without a size is 4 · hidden wide
  bool ropes_of_layers = false;   // "rope_parameters" may hold an object for each kind of layer
  bool phi3_rope = false;  // longrope alone, which first folders call yarn; its original length is 4096 if not given
  bool ntk_alpha = false;  // HunYuan: "dynamic" with "alpha" is a larger base from the start
  RopeSpec rope = {};      // without rope parameters, if it has a scaling (Apertus)
};

class ConfigReader {
 public:
  ConfigReader(const Json& config, std::string source) : config_(config), source_(std::move(source)) {}

  const std::string& source() const { return source_; }
  /// Whether the family has read this key, so that it takes effect.
  bool asked(const std::string& key) const { return asked_.contains(key); }
  /// Present and not null.
  bool has(const char* key) const;
  /// The value of a key that is there.
  const Json& at(const char* key) const { return config_[note(key)]; }
  /// Present and null, which in some keys means something else than absent.
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

  /// A list; empty when it is not there.
  std::vector<std::int64_t> integers(const char* key) const;

  /// "dtype" or "torch_dtype"; "float32" when neither is there.
  std::string dtype() const;
  /// The first of the keys that is there, as an activation; UserError for one we do not have.
  kernels::Activation activation(std::initializer_list<const char*> keys, std::string_view fallback) const;
  /// An id, null (none), or absent (the fallback).
  Token token(const char* key, Token fallback) const;
  std::vector<Token> tokens(const char* key, Token fallback) const;

  /// Sizes, norms' epsilon, ids and rotary embedding of the Llama-like families.
  void read_common(ModelSpec& spec, const ConfigDefaults& defaults) const;
  RopeSpec read_rope(const ModelSpec& spec, const ConfigDefaults& defaults) const;
  /// The rotary embedding of one kind of layer ("sliding_attention") in a nested rope_parameters; without an entry of
  /// its own, the plain one with the base that stands under `theta_key`, or else in the defaults.
  RopeSpec read_rope_of(const char* layer_type, const char* theta_key, const ModelSpec& spec,
                        const ConfigDefaults& defaults) const;

  /// Whether "rope_parameters" holds an object for each kind of layer.
  bool nested_ropes() const;

  /// Above 0, or the fallback; 0 when null.
  std::int64_t sliding_window(std::int64_t fallback) const;
  /// `window` on every layer. The families that ask for this do not read "layer_types" in transformers: UserError where
  /// that key says otherwise.
  std::vector<std::int64_t> same_windows(const ModelSpec& spec, std::int64_t window) const;
  /// `window` on layers that are sliding by "layer_types", or, without that key, by `is_sliding(layer)`.
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

/// "silu" …; the name transformers uses.
std::string activation_name(kernels::Activation activation);

}  // namespace dml
