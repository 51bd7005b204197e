#include "exchange/gguf_families.h"

#include <algorithm>
#include <cmath>

#include "core/closest.h"
#include "core/error.h"
#include "core/log.h"

namespace dml {
namespace {

using kernels::Activation;
using F = GgufFamily;

double default_query_scale(const ModelSpec& s) {
  // llama.cpp tells Gemma's 27B models by their number of layers.
  const bool by_width = (s.model_type == "gemma2" && s.layers == 46) || (s.model_type == "gemma3_text" && s.layers == 62);
  return 1 / std::sqrt(static_cast<double>(by_width ? s.hidden / s.heads : s.head_dim));
}

double yarn_attention_factor(const RopeSpec& r) { return r.factor <= 1 ? 1 : 0.1 * std::log(r.factor) + 1; }

std::int64_t expected_window(const F& family, std::int64_t layer, std::int64_t window) {
  const bool slides = family.window_first ? layer % family.full_window == 0 : (layer + 1) % family.full_window != 0;
  return slides ? window : 0;
}

class KeyWriter {
 public:
  KeyWriter(const ModelSpec& spec, const F& family, const std::string& source, GgufMetadata& to)
      : s_(spec), family_(family), source_(source), to_(to) {}

  void write() {
    set("vocab_size", s_.vocab);
    set("context_length", s_.max_positions);
    set("embedding_length", s_.hidden);
    set("block_count", s_.layers);
    set("feed_forward_length", s_.ffn);
    set("attention.head_count", s_.heads);
    set("attention.head_count_kv", s_.kv_heads);
    set("attention.key_length", s_.head_dim);
    set("attention.value_length", s_.head_dim);
    real(s_.norm.kind == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", s_.norm.eps);
    if (s_.model_type == "stablelm") to_.set(key("use_parallel_residual"), GgufValue::boolean(s_.residual.parallel));
    block();
    attention();
    if (s_.positions == Positions::rope) rope();
    problems_.raise();
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", family_.architecture, name); }
  void set(std::string_view name, std::int64_t x) { to_.set(key(name), GgufValue::u32(static_cast<std::uint32_t>(x))); }
  void real(std::string_view name, double x) { to_.set(key(name), GgufValue::f32(static_cast<float>(x))); }
  template <class... Args>
  void refuse(fmt::format_string<Args...> text, Args&&... args) {
    problems_.add(fmt::format("{}: GGUF: llama.cpp's '{}' has {}", source_, family_.architecture,
                              fmt::format(text, std::forward<Args>(args)...)));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> text, Args&&... args) {
    log_warning("{}: llama.cpp's '{}' {}", source_, family_.architecture, fmt::format(text, std::forward<Args>(args)...));
  }

  void block() {
    if (s_.activation != family_.activation) refuse("another activation than this model's");
    for (auto [has, bit, name] : {std::tuple{s_.bias.qkv, F::qkv, "biases of q, k and v"},
                                  {s_.bias.out, F::out, "a bias behind the attention"},
                                  {s_.bias.mlp, F::mlp, "biases in the MLP"},
                                  {s_.bias.head, F::head, "a bias of lm_head"}})
      if (has && !(family_.biases & bit)) refuse("no {}", name);
    if (family_.extras & F::scales) {
      real("embedding_scale", s_.embedding_scale);
      real("residual_scale", s_.residual.scale);
      real("logit_scale", 1 / s_.logit_scale);
    } else if (family_.extras & F::logit_scale) {
      real("logit_scale", s_.logit_scale);
    } else if (s_.logit_scale != 1 || s_.residual.scale != 1) {
      refuse("no scale of residuals and logits");
    }
    if (s_.qk_norm.over == QkNormSpec::Over::own_stacked && s_.layers < 64) refuse("norms of q and k (use_qk_norm) only from 64 layers on");
    if (s_.stored.qkv == StorageSpec::Qkv::by_head) refuse("q, k and v one behind the other; this model has them head by head");
  }

  void attention() {
    const double scale = s_.scores.scale == 0 ? 1 / std::sqrt(static_cast<double>(s_.head_dim)) : s_.scores.scale;
    if (family_.extras & F::scales) real("attention.scale", scale);
    else if (std::abs(scale / default_query_scale(s_) - 1) > 1e-6)
      refuse("a fixed scale of attention scores, {:.6g}; this model has {:.6g}", default_query_scale(s_), scale);
    if (s_.scores.by_layer) refuse("no scale_attn_by_inverse_layer_idx");
    if (s_.model_type == "gemma2") {
      if (!(s_.scores.softcap > 0 && s_.final_softcap > 0)) refuse("soft-caps on scores and logits, which are off here");
      real("attn_logit_softcapping", s_.scores.softcap);
    } else if (s_.scores.softcap > 0) {
      refuse("no attn_logit_softcapping");
    }
    if (s_.final_softcap > 0) real("final_logit_softcapping", s_.final_softcap);
    windows();
  }

  void windows() {
    const std::int64_t window = s_.windows.empty() ? 0 : std::ranges::max(s_.windows);
    if (family_.full_window == 0) {
      if (window > 0 && window < s_.max_positions)
        warn("attends to the whole text: texts of more than {} tokens (sliding_window) come out differently", window);
      if (family_.architecture == "phi3") set("attention.sliding_window", window);
      return;
    }
    for (std::int64_t l = 0; l < s_.layers; ++l)
      if (const std::int64_t here = s_.windows.empty() ? 0 : s_.windows[static_cast<std::size_t>(l)];
          here != expected_window(family_, l, window) || window == 0)
        return refuse("a window on all but every {}th layer; this model has others", family_.full_window);
    set("attention.sliding_window", window);
  }

  void rope() {
    const RopeSpec& r = s_.rope;
    const auto dimensions = static_cast<std::int64_t>(r.partial * static_cast<double>(s_.head_dim));
    if (!(family_.extras & F::partial_rope) && dimensions != s_.head_dim)
      refuse("no partial_rotary_factor, which is {}", r.partial);
    for (std::int64_t l = 0; l < s_.layers; ++l) {
      const bool turns = s_.without_rope.empty() || !s_.without_rope[static_cast<std::size_t>(l)];
      if (turns != (family_.full_rope > 0 && (l + 1) % family_.full_rope == 0)) continue;
      if (family_.full_rope == 0) refuse("rope on every layer; this model has layers without");
      else refuse("rope on all but every {}th layer; this model has other layers without", family_.full_rope);
      break;
    }
    set("rope.dimension_count", dimensions);
    real("rope.freq_base", r.theta);
    if (s_.rope_local && (s_.rope_local->theta != 10000 || s_.rope_local->scaling != RopeScaling::none))
      refuse("sliding layers with a rope of base 10000; this model's is {}", s_.rope_local->theta);
    switch (r.scaling) {
      case RopeScaling::none:
        return;
      case RopeScaling::linear:
        to_.set(key("rope.scaling.type"), GgufValue::text("linear"));
        return real("rope.scaling.factor", r.factor);
      case RopeScaling::yarn:
        return yarn();
      case RopeScaling::llama3:
        if (!(family_.extras & F::llama3_rope)) refuse("no rope scaling 'llama3'");
        return;  // a tensor of factors
      case RopeScaling::longrope:
        return longrope();
      case RopeScaling::dynamic:
        return refuse("no rope scaling 'dynamic'");
    }
  }

  void yarn() {
    const RopeSpec& r = s_.rope;
    to_.set(key("rope.scaling.type"), GgufValue::text("yarn"));
    real("rope.scaling.factor", r.factor);
    set("rope.scaling.original_context_length", r.original_positions);
    if (r.beta_fast != 32) real("rope.scaling.yarn_beta_fast", r.beta_fast);
    if (r.beta_slow != 1) real("rope.scaling.yarn_beta_slow", r.beta_slow);
    if (!r.truncate) refuse("no YaRN without truncation ('truncate': false)");
    if (r.attention_factor != 0 && std::abs(r.attention_factor / yarn_attention_factor(r) - 1) > 1e-4)
      refuse("YaRN's attention_factor {:.6g} for this factor; this model's is {:.6g}", yarn_attention_factor(r),
             r.attention_factor);
  }

  void longrope() {
    const RopeSpec& r = s_.rope;
    if (!(family_.extras & F::longrope)) return refuse("no rope scaling 'longrope'");
    const double factor = r.factor > 1 ? r.factor : static_cast<double>(s_.max_positions) / static_cast<double>(r.original_positions);
    const double attention = r.attention_factor != 0 ? r.attention_factor
                             : factor <= 1           ? 1
                                                     : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(r.original_positions)));
    set("rope.scaling.original_context_length", r.original_positions);
    real("rope.scaling.attn_factor", attention);
  }

  const ModelSpec& s_;
  const F& family_;
  const std::string& source_;
  GgufMetadata& to_;
  Problems problems_;
};

}  // namespace

const std::vector<GgufFamily>& gguf_families() {
  constexpr unsigned kAll = F::qkv | F::out | F::mlp;
  static const std::vector<F> table = {
      {.model_type = "llama", .architecture = "llama", .paired_rope = true, .biases = kAll, .extras = F::llama3_rope},
      {.model_type = "mistral", .architecture = "llama", .paired_rope = true, .extras = F::llama3_rope},
      {.model_type = "ministral", .architecture = "llama", .paired_rope = true},
      {.model_type = "qwen2", .architecture = "qwen2", .biases = F::qkv},
      {.model_type = "qwen3", .architecture = "qwen3"},
      {.model_type = "gemma", .architecture = "gemma", .activation = Activation::gelu_tanh},
      {.model_type = "gemma2",
       .architecture = "gemma2",
       .activation = Activation::gelu_tanh,
       .full_window = 2,
       .window_first = 1},
      {.model_type = "gemma3_text", .architecture = "gemma3", .activation = Activation::gelu_tanh, .full_window = 6},
      {.model_type = "phi3", .architecture = "phi3", .extras = F::longrope | F::partial_rope},
      {.model_type = "stablelm",
       .architecture = "stablelm",
       .biases = F::qkv,
       .extras = F::partial_rope,
       .epsilon = "layer_norm_eps"},
      {.model_type = "olmo2", .architecture = "olmo2"},
      {.model_type = "gpt2", .architecture = "gpt2", .activation = Activation::gelu_tanh, .biases = kAll},
      {.model_type = "granite", .architecture = "granite", .paired_rope = true, .biases = kAll, .extras = F::scales},
      {.model_type = "cohere", .architecture = "command-r", .extras = F::logit_scale, .epsilon = "layer_norm_eps"},
      {.model_type = "cohere2",
       .architecture = "cohere2",
       .full_window = 4,
       .full_rope = 4,
       .extras = F::logit_scale,
       .epsilon = "layer_norm_eps"},
      {.model_type = "nemotron",
       .architecture = "nemotron",
       .activation = Activation::relu2,
       .biases = kAll,
       .extras = F::partial_rope,
       .epsilon = "norm_eps"},
      {.model_type = "starcoder2",
       .architecture = "starcoder2",
       .activation = Activation::gelu_tanh,
       .biases = kAll,
       .epsilon = "norm_epsilon"},
      {.model_type = "glm4", .architecture = "glm4", .biases = F::qkv, .extras = F::partial_rope},
      {.model_type = "smollm3", .architecture = "smollm3", .paired_rope = true, .full_rope = 4},
      {.model_type = "arcee",
       .architecture = "arcee",
       .paired_rope = true,
       .activation = Activation::relu2,
       .extras = F::llama3_rope},
      {.model_type = "ernie4_5", .architecture = "ernie4_5", .biases = F::out},
      {.model_type = "hunyuan_v1_dense", .architecture = "hunyuan-dense"},
  };
  return table;
}

const GgufFamily& gguf_family(std::string_view model_type, const std::string& source) {
  std::vector<std::string> names;
  for (const GgufFamily& f : gguf_families()) {
    if (f.model_type == model_type) return f;
    names.emplace_back(f.model_type);
  }
  throw UserError("{}: GGUF: family '{}' cannot be written for llama.cpp; known are {}", source, model_type,
                  fmt::join(names, ", "));
}

void write_model_keys(const ModelSpec& spec, const GgufFamily& family, const std::string& source, GgufMetadata& to) {
  KeyWriter(spec, family, source, to).write();
}

}  // namespace dml
