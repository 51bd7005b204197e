#include "checkpoint/config_reader.h"

#include <algorithm>
#include <cmath>

#include "core/closest.h"
#include "core/error.h"
#include "core/shown.h"

namespace dml {
namespace {

using kernels::Activation;

struct ActivationName {
  const char* name;
  Activation activation;
};
// transformers has several names for some formulas. The first name of each is the one that we write.
constexpr ActivationName kActivations[] = {{"silu", Activation::silu},
                                           {"swish", Activation::silu},
                                           {"gelu", Activation::gelu},
                                           {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                           {"gelu_new", Activation::gelu_tanh},
                                           {"gelu_fast", Activation::gelu_tanh},
                                           {"gelu_python", Activation::gelu},
                                           {"gelu_python_tanh", Activation::gelu_tanh},
                                           {"relu", Activation::relu},
                                           {"gelu_accurate", Activation::gelu_tanh},
                                           {"relu2", Activation::relu2},
                                           {"xielu", Activation::xielu},
                                           {"quick_gelu", Activation::quick_gelu},
                                           {"tanh", Activation::tanh}};

struct ScalingName {
  const char* name;
  RopeScaling scaling;
};
constexpr ScalingName kScalings[] = {{"default", RopeScaling::none},    {"linear", RopeScaling::linear},
                                     {"dynamic", RopeScaling::dynamic}, {"llama3", RopeScaling::llama3},
                                     {"yarn", RopeScaling::yarn},       {"longrope", RopeScaling::longrope},
                                     {"su", RopeScaling::longrope}};

std::vector<double> numbers(const Json& object, const char* key, const std::string& source) {
  auto it = object.find(key);
  if (it == object.end() || !it->is_array() || it->size() > 8192)
    throw UserError("{}: '{}' must be a list of numbers", source, key);
  std::vector<double> out;
  for (auto& v : *it) {
    if (!v.is_number()) throw UserError("{}: '{}' must be a list of numbers", source, key);
    out.push_back(v.get<double>());
  }
  return out;
}

void check_rope_keys(const Json& object, const std::string& source, bool alpha) {
  static const std::vector<std::string> known = {"rope_type",        "type",
                                                 "rope_theta",       "partial_rotary_factor",
                                                 "factor",           "low_freq_factor",
                                                 "high_freq_factor", "original_max_position_embeddings",
                                                 "attention_factor", "beta_fast",
                                                 "beta_slow",        "mscale",
                                                 "mscale_all_dim",   "truncate",
                                                 "long_factor",      "short_factor",
                                                 "finetuned",        "max_position_embeddings"};
  for (auto& [key, value] : object.items()) {
    bool is_known = alpha && key == "alpha";
    for (auto& k : known) is_known |= k == key;
    if (!is_known && !value.is_null())
      throw UserError("{}: '{}' changes the rotary embedding in a way dml does not know{}", source, shown(key),
                      did_you_mean(key, known));
  }
}

Token as_token(const Json& v, const char* key, const std::string& source) {
  if (!v.is_number_integer() || v < -1 || v > std::int64_t{INT32_MAX})
    throw UserError("{}: '{}' must be a token id, is {}", source, key, shown(dump(v), 60));
  return v.get<Token>();
}

}  // namespace

std::string activation_name(Activation activation) {
  for (auto& a : kActivations)
    if (a.activation == activation) return a.name;
  return "";
}

bool ConfigReader::has(const char* key) const {
  auto it = config_.find(note(key));
  return it != config_.end() && !it->is_null();
}

bool ConfigReader::is_null(const char* key) const {
  auto it = config_.find(key);
  return it != config_.end() && it->is_null();
}

std::int64_t ConfigReader::required(const char* key) const {
  if (!has(key)) throw UserError("{}: no '{}'", source_, key);
  return integer(key, 0);
}

std::vector<std::int64_t> ConfigReader::integers(const char* key) const {
  std::vector<std::int64_t> out;
  if (!has(key)) return out;
  const Json& list = at(key);
  constexpr std::size_t kMax = 8192;
  if (!list.is_array() || list.size() > kMax ||
      !std::all_of(list.begin(), list.end(), [](const Json& v) { return v.is_number_integer(); }))
    throw UserError("{}: '{}' must be a list of whole numbers, is {}", source_, key, shown(dump(list), 60));
  for (const Json& v : list) out.push_back(v.get<std::int64_t>());
  return out;
}

std::string ConfigReader::dtype() const { return text(has("dtype") ? "dtype" : "torch_dtype", "float32"); }

Activation ConfigReader::activation(std::initializer_list<const char*> keys, std::string_view fallback) const {
  std::string name(fallback);
  const char* used = *keys.begin();
  for (const char* key : keys)
    if (has(key)) {
      name = text(key, "");
      used = key;
      break;
    }
  std::vector<std::string> names;
  for (auto& a : kActivations) {
    if (name == a.name) return a.activation;
    names.push_back(a.name);
  }
  throw UserError("{}: '{}' is '{}', an activation dml does not have{}", source_, used, shown(name, 60),
                  did_you_mean(name, names));
}

Token ConfigReader::token(const char* key, Token fallback) const {
  auto it = config_.find(key);
  if (it == config_.end()) return fallback;
  if (it->is_null()) return -1;
  return as_token(*it, key, source_);
}

std::vector<Token> ConfigReader::tokens(const char* key, Token fallback) const {
  auto it = config_.find(key);
  if (it == config_.end()) return fallback < 0 ? std::vector<Token>{} : std::vector<Token>{fallback};
  if (it->is_null()) return {};
  if (!it->is_array()) {
    Token id = as_token(*it, key, source_);
    return id < 0 ? std::vector<Token>{} : std::vector<Token>{id};
  }
  if (it->size() > 256) throw UserError("{}: '{}' lists {} ids, the limit is 256", source_, key, it->size());
  std::vector<Token> out;
  for (auto& v : *it) out.push_back(as_token(v, key, source_));
  return out;
}

void ConfigReader::read_common(ModelSpec& spec, const ConfigDefaults& defaults) const {
  spec.vocab = required("vocab_size");
  spec.hidden = required("hidden_size");
  spec.ffn = defaults.ffn_of_hidden && !has(defaults.ffn_key) ? 4 * std::clamp<std::int64_t>(spec.hidden, 0, 1 << 20)
                                                              : required(defaults.ffn_key);
  spec.layers = required("num_hidden_layers");
  spec.heads = required("num_attention_heads");
  spec.kv_heads =
      integer(defaults.kv_key, is_null(defaults.kv_key) || defaults.kv_heads == 0 ? spec.heads : defaults.kv_heads);
  if (spec.hidden < 1 || spec.heads < 1 || spec.layers < 1)
    spec.check(source_);  // reports the error before a division by it
  if (spec.layers > 2048) throw UserError("{}: 'num_hidden_layers' must be 1 to 2048, is {}", source_, spec.layers);
  const bool shared_out = is_null("head_dim") || (!has("head_dim") && defaults.head_dim == 0);
  if (!shared_out) {
    spec.head_dim = integer("head_dim", defaults.head_dim);
  } else {
    if (spec.hidden % spec.heads != 0)
      throw UserError("{}: hidden_size {} is not divisible by {} attention heads, and no 'head_dim' is given", source_,
                      spec.hidden, spec.heads);
    spec.head_dim = spec.hidden / spec.heads;
  }
  if (defaults.derived_head_dim && (spec.hidden % spec.heads != 0 || spec.head_dim != spec.hidden / spec.heads))
    throw UserError("{}: 'head_dim' is {}, but heads of a {} are hidden_size / num_attention_heads wide", source_,
                    spec.head_dim, spec.model_type);
  spec.max_positions = integer("max_position_embeddings", defaults.max_positions);
  spec.norm.eps = number(defaults.eps_key, defaults.norm_eps);
  spec.activation = activation({defaults.activation_key}, defaults.activation);
  spec.tied = boolean("tie_word_embeddings", defaults.tied);
  spec.init_range = number("initializer_range", 0.02);
  spec.bos = token("bos_token_id", defaults.bos < spec.vocab ? defaults.bos : -1);
  spec.eos = tokens("eos_token_id", defaults.eos < spec.vocab ? defaults.eos : -1);
  spec.pad = token("pad_token_id", -1);
  if (spec.pad >= spec.vocab)
    spec.pad = -1;  // older Llama folders name a pad token that was never added; it is not used
  const bool nested = defaults.ropes_of_layers && nested_ropes();
  spec.rope = nested ? read_rope_of("full_attention", "rope_theta", spec, defaults) : read_rope(spec, defaults);
}

bool ConfigReader::nested_ropes() const {
  if (!has("rope_parameters")) return false;
  const Json& all = config_["rope_parameters"];
  return all.is_object() && (all.contains("full_attention") || all.contains("sliding_attention"));
}

RopeSpec ConfigReader::read_rope(const ModelSpec& spec, const ConfigDefaults& defaults) const {
  const char* key = has("rope_scaling") && !config_["rope_scaling"].empty() ? "rope_scaling" : "rope_parameters";
  if (!has(key) && defaults.rope.scaling != RopeScaling::none) {
    RopeSpec rope = defaults.rope;
    rope.theta = number(defaults.theta_key, defaults.rope_theta);
    return rope;
  }
  return rope_from(has(key) ? config_[key] : Json::object(), key, defaults.theta_key, spec, defaults);
}

RopeSpec ConfigReader::read_rope_of(const char* layer_type, const char* theta_key, const ModelSpec& spec,
                                    const ConfigDefaults& defaults) const {
  Json own = Json::object();
  if (has("rope_parameters")) {
    const Json& all = config_["rope_parameters"];
    if (!all.is_object() || !(all.empty() || all.contains("full_attention") || all.contains("sliding_attention")))
      throw UserError("{}: 'rope_parameters' of model_type '{}' must hold 'full_attention' and 'sliding_attention'",
                      source_, spec.model_type);
    if (auto it = all.find(layer_type); it != all.end() && !it->is_null()) own = *it;
  }
  return rope_from(own, layer_type, theta_key, spec, defaults);
}

RopeSpec ConfigReader::rope_from(const Json& object, const char* where, const char* theta_key, const ModelSpec& spec,
                                 const ConfigDefaults& defaults) const {
  if (!object.is_object())
    throw UserError("{}: '{}' must be an object, is {}", source_, where, shown(dump(object), 60));
  std::string place = source_ + ": " + where;
  check_rope_keys(object, place, defaults.ntk_alpha);
  RopeSpec rope;
  rope.theta = json_number(object, "rope_theta", number(theta_key, defaults.rope_theta), place);
  const double whole = defaults.partial_rotary > 0 ? defaults.partial_rotary : 1;
  rope.partial = json_number(object, "partial_rotary_factor", number(defaults.partial_key, whole), place);
  if (defaults.partial_rotary == 0 && rope.partial != 1)
    throw UserError("{}: 'partial_rotary_factor' is {}, but a model of type '{}' rotates whole heads", source_,
                    rope.partial, spec.model_type);

  std::string type = json_string(object, "rope_type", json_string(object, "type", "default", place), place);
  if (defaults.phi3_rope && type == "yarn") type = "longrope";
  if (defaults.ntk_alpha && type == "dynamic" && json_number(object, "alpha", 0, place) > 0) {
    const auto d = static_cast<double>(spec.head_dim);
    rope.theta *= std::pow(json_number(object, "alpha", 0, place), d / (d - 2));
    return rope;
  }
  const ScalingName* found = nullptr;
  std::vector<std::string> names;
  for (auto& s : kScalings) {
    if (type == s.name) found = &s;
    names.push_back(s.name);
  }
  if (!found) throw UserError("{}: unknown rope type '{}'{}", place, shown(type, 60), did_you_mean(type, names));
  rope.scaling = found->scaling;
  if (defaults.phi3_rope && rope.scaling != RopeScaling::none && rope.scaling != RopeScaling::longrope)
    throw UserError("{}: rope type '{}': a {} knows \"default\" and \"longrope\"", place, type, spec.model_type);
  const bool beside = !std::string_view(where).ends_with("_attention") &&
                      (defaults.phi3_rope || has("original_max_position_embeddings"));
  if (rope.scaling != RopeScaling::none) read_scaling(rope, object, place, beside, spec);
  return rope;
}

// As in transformers' standardize_rope_params(): the original length next to rope_parameters overrides the one inside,
// and Phi-3 always has one.
void ConfigReader::read_scaling(RopeSpec& rope, const Json& object, const std::string& place, bool beside,
                                const ModelSpec& spec) const {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  constexpr std::int64_t kPhi3Original = 4096;
  auto given = [&](const char* key) { return object.contains(key) && !object[key].is_null(); };
  auto need = [&](const char* key) {
    if (!given(key))
      throw UserError("{}: rope type '{}' needs '{}'", place,
                      json_string(object, "rope_type", json_string(object, "type", "", place), place), key);
    return json_number(object, key, 0, place);
  };
  rope.original_positions =
      beside ? integer(kOriginal, kPhi3Original) : json_integer(object, kOriginal, spec.max_positions, place);
  rope.attention_factor = json_number(object, "attention_factor", 0, place);
  const double stretched =
      static_cast<double>(spec.max_positions) / static_cast<double>(std::max<std::int64_t>(1, rope.original_positions));
  switch (rope.scaling) {
    case RopeScaling::llama3:
      rope.low_freq_factor = need("low_freq_factor");
      rope.high_freq_factor = need("high_freq_factor");
      rope.factor = need("factor");
      break;
    case RopeScaling::yarn: {
      rope.factor = given("factor") ? need("factor") : stretched;
      rope.beta_fast = json_number(object, "beta_fast", 32, place);
      rope.beta_slow = json_number(object, "beta_slow", 1, place);
      rope.truncate = json_bool(object, "truncate", true, place);
      double m = json_number(object, "mscale", 0, place), all = json_number(object, "mscale_all_dim", 0, place);
      auto scale = [&](double x) { return rope.factor <= 1 ? 1.0 : 0.1 * x * std::log(rope.factor) + 1; };
      rope.mscale_all_dim = all;
      if (rope.attention_factor == 0 && m != 0 && all != 0) rope.attention_factor = scale(m) / scale(all);
      break;
    }
    case RopeScaling::longrope:
      rope.long_factor = numbers(object, "long_factor", place);
      rope.short_factor = numbers(object, "short_factor", place);
      rope.factor = given("factor") ? need("factor") : std::max(1.0, stretched);
      break;
    case RopeScaling::dynamic:
      rope.original_positions = spec.max_positions;
      rope.factor = need("factor");
      break;
    default:
      rope.factor = need("factor");
  }
}

std::int64_t ConfigReader::sliding_window(std::int64_t fallback) const {
  auto it = config_.find("sliding_window");
  if (it == config_.end()) return fallback;
  if (it->is_null()) return 0;
  std::int64_t window = integer("sliding_window", 0);
  if (window < 1 || window > (std::int64_t{1} << 30))
    throw UserError("{}: 'sliding_window' must be null or above 0, is {}", source_, window);
  return window;
}

std::vector<std::int64_t> ConfigReader::same_windows(const ModelSpec& spec, std::int64_t window) const {
  std::vector<std::int64_t> out;
  if (window > 0) out.assign(static_cast<std::size_t>(spec.layers), window);
  if (has("layer_types") && windows_of_types(spec, window) != out)
    throw UserError("{}: 'layer_types' and 'sliding_window' disagree: every layer of a {} has the window", source_,
                    spec.model_type);
  return out;
}

std::vector<std::int64_t> ConfigReader::windows_of_types(const ModelSpec& spec, std::int64_t window) const {
  auto& types = config_["layer_types"];
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != spec.layers)
    throw UserError("{}: 'layer_types' must list {} layers, {}", source_, spec.layers,
                    types.is_array() ? fmt::format("lists {}", types.size()) : "is not a list");
  std::vector<std::int64_t> out;
  bool any = false;
  for (auto& t : types) {
    bool sliding = t == "sliding_attention";
    if (!sliding && t != "full_attention")
      throw UserError("{}: 'layer_types' holds {}, choose from \"full_attention\", \"sliding_attention\"", source_,
                      shown(dump(t), 60));
    if (sliding && window == 0)
      throw UserError("{}: 'layer_types' has sliding layers, but no 'sliding_window' is in use", source_);
    out.push_back(sliding ? window : 0);
    any |= sliding;
  }
  return any ? out : std::vector<std::int64_t>{};
}

}  // namespace dml
