// Writes a model's sizes and settings as keys of its GGUF file.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/log.h"
#include "exchange/gguf_families.h"

namespace dml {
namespace {

using F = GgufFamily;

double yarn_attention_factor(const RopeSpec& r) { return r.factor <= 1 ? 1 : 0.1 * std::log(r.factor) + 1; }

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
    set("attention.key_length", s_.latent ? s_.latent.nope + s_.latent.rope : s_.head_dim);
    set("attention.value_length", s_.latent ? s_.latent.value : s_.head_dim);
    real(s_.norm.kind == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
         s_.norm.eps);
    block();
    if (s_.moe.experts > 0) experts();
    if (s_.latent) latent();
    attention();
    if (s_.positions == Positions::rope) rope();
    if (s_.positions == Positions::alibi && s_.model_type == "mpt")
      real("attention.max_alibi_bias", s_.scores.alibi_bias_max);
    problems_.raise();
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", family_.architecture, name); }
  void set(std::string_view name, std::int64_t x) { to_.set(key(name), GgufValue::u32(static_cast<std::uint32_t>(x))); }
  void flag(std::string_view name, bool x) { to_.set(key(name), GgufValue::boolean(x)); }
  void real(std::string_view name, double x) { to_.set(key(name), GgufValue::f32(static_cast<float>(x))); }
  template <class... Args>
  void refuse(fmt::format_string<Args...> text, Args&&... args) {
    problems_.add(fmt::format("{}: GGUF: llama.cpp's '{}' has {}", source_, family_.architecture,
                              fmt::format(text, std::forward<Args>(args)...)));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> text, Args&&... args) {
    log_warning("{}: llama.cpp's '{}' {}", source_, family_.architecture,
                fmt::format(text, std::forward<Args>(args)...));
  }

  void block() {
    if (s_.activation != family_.activation) refuse("another activation than this model's");
    if (family_.has(F::own_head) && s_.tied) refuse("a head of its own; this model's is tied to its embedding");
    if (family_.has(F::parallel_key)) flag("use_parallel_residual", s_.residual.parallel);
    if (family_.has(F::parallel_only) && !s_.residual.parallel)
      refuse("attention and MLP side by side; here they follow each other");
    for (auto [has, bit, name] : {std::tuple{s_.bias.qkv, F::qkv, "biases of q, k and v"},
                                  {s_.bias.out, F::out, "a bias after the attention"},
                                  {s_.bias.mlp, F::mlp, "biases in the MLP"},
                                  {s_.bias.head, F::head, "a bias of lm_head"}}) {
      if (has && !family_.knows(bit)) refuse("no {}", name);
      if (!has && (family_.needs & bit) != 0) refuse("always {}; this model has none", name);
    }
    if (family_.has(F::scales)) {
      real("embedding_scale", s_.embedding_scale);
      real("residual_scale", s_.residual.scale);
      real("logit_scale", 1 / s_.logit_scale);
    } else if (family_.has(F::logit_scale)) {
      real("logit_scale", s_.logit_scale);
    } else if (s_.logit_scale != 1 || s_.residual.scale != 1) {
      refuse("no scale of residuals and logits");
    }
    if (s_.qk_norm.over == QkNormSpec::Over::per_head_stacked && s_.layers < 64)
      refuse("norms of q and k (use_qk_norm) only from 64 layers on");
    if (family_.architecture == "phi2" && s_.qk_norm) refuse("no norms of q and k (qk_layernorm)");
  }

  void experts() {
    const MoeSpec& m = s_.moe;
    if (!family_.has(F::experts)) return refuse("no experts");
    set("expert_count", m.experts);
    set("expert_used_count", m.chosen);
    set("expert_feed_forward_length", m.ffn);
    const auto dense = std::ranges::count(m.dense, true);
    if (family_.has(F::leading_dense)) {
      set("leading_dense_block_count", dense);
      set("expert_shared_count", m.shared_ffn / m.ffn);
      set("expert_gating_func", 2);  // sigmoid
      set("expert_group_count", m.groups);
      set("expert_group_used_count", m.chosen_groups);
      real("expert_weights_scale", m.scale);
      flag("expert_weights_norm", m.normalize);
      return;
    }
    if (dense > 0)
      refuse("experts in every layer; this model has layers without (mlp_only_layers, decoder_sparse_step)");
    if (m.normalize != family_.has(F::normalized))
      refuse("experts' weights {} by their sum; here norm_topk_prob is {}",
             family_.has(F::normalized) ? "divided" : "that are not divided", m.normalize);
    if (s_.model_type == "olmoe" && s_.kv_heads != s_.heads)
      refuse("as many key/value heads as heads; this model has {} and {}", s_.kv_heads, s_.heads);
    if (m.shared_ffn > 0) set("expert_shared_feed_forward_length", m.shared_ffn);
  }

  void latent() {
    if (s_.latent.q_rank > 0) set("attention.q_lora_rank", s_.latent.q_rank);
    else if (s_.layers != 26 && s_.layers != 27)
      refuse("a q_lora_rank for models of {} layers; this one has none", s_.layers);
    set("attention.kv_lora_rank", s_.latent.kv_rank);
    if (!s_.latent.interleaved) refuse("rope of neighboring elements; here rope_interleave is false");
  }

  void attention() {
    const double scale = s_.scores.scale == 0 ? 1 / std::sqrt(static_cast<double>(s_.head_dim)) : s_.scores.scale;
    if (family_.has(F::scales)) real("attention.scale", scale);
    else if (const double fixed = family_.score_scale(s_) * latent_factor(); std::abs(scale / fixed - 1) > 1e-6)
      refuse("a fixed scale of attention scores, {:.6g}; this model has {:.6g}", fixed, scale);
    if (s_.scores.by_layer) refuse("no scale_attn_by_inverse_layer_idx");
    if (s_.scores.clip > 0 && s_.model_type == "mpt") real("attention.clamp_kqv", s_.scores.clip);
    else if (s_.scores.clip > 0) refuse("no clip_qkv");
    if (s_.model_type == "gemma2") {
      if (!(s_.scores.softcap > 0 && s_.final_softcap > 0))
        refuse("soft-caps on scores and logits, which are off here");
      real("attn_logit_softcapping", s_.scores.softcap);
    } else if (s_.scores.softcap > 0) {
      refuse("no attn_logit_softcapping");
    }
    if (s_.final_softcap > 0) real("final_logit_softcapping", s_.final_softcap);
    windows();
  }

  // The factor of YaRN with mscale_all_dim, which llama.cpp computes itself.
  double latent_factor() const {
    if (!s_.latent || s_.rope.scaling != RopeScaling::yarn || s_.rope.factor <= 1) return 1;
    const double m = 0.1 * s_.rope.mscale_all_dim * std::log(s_.rope.factor) + 1;
    return m * m;
  }

  void windows() {
    const std::int64_t window = s_.windows.empty() ? 0 : std::ranges::max(s_.windows);
    if (family_.full_window == 0) {
      if (window > 0 && window < s_.max_positions)
        warn("attends to the whole text: texts of more than {} tokens (sliding_window) come out differently", window);
      if (family_.architecture == "phi3") set("attention.sliding_window", window);
      return;
    }
    const bool any = family_.slides(s_, 0) || family_.slides(s_, 1);
    for (std::int64_t l = 0; l < s_.layers; ++l)
      if (const std::int64_t here = s_.windows.empty() ? 0 : s_.windows[static_cast<std::size_t>(l)];
          here != (family_.slides(s_, l) ? window : 0) || (any && window == 0))
        return any ? refuse("a window on all but every {}th layer; this model has others", family_.full_window)
                   : refuse("windows only from {} layers on", family_.windowed_from);
    if (!any) return;
    set("attention.sliding_window", window);
  }

  void rope() {
    const RopeSpec& r = s_.rope;
    const auto dimensions =
        s_.latent ? s_.latent.rope : static_cast<std::int64_t>(r.partial * static_cast<double>(s_.head_dim));
    if (dimensions % 2 != 0) refuse("rope of an even number of elements; here {} of {} turn", dimensions, s_.head_dim);
    if (!family_.has(F::partial_rope) && dimensions != s_.head_dim)
      refuse("no partial_rotary_factor, which is {}", r.partial);
    for (std::int64_t l = 0; l < s_.layers; ++l) {
      const bool turns = s_.without_rope.empty() || !s_.without_rope[static_cast<std::size_t>(l)];
      if (turns == family_.turns(s_, l)) continue;
      if (family_.full_rope == 0) refuse("rope on every layer; this model has layers without");
      else refuse("rope on all but every {}th layer; this model has other layers without", family_.full_rope);
      break;
    }
    set("rope.dimension_count", dimensions);
    real("rope.freq_base", r.theta);
    const double local = s_.model_type == "gemma3_text" ? 10000 : r.theta;
    if (s_.rope_local && (s_.rope_local->theta != local || s_.rope_local->scaling != RopeScaling::none))
      refuse("sliding layers with a plain rope of base {}; this model's is {}", local, s_.rope_local->theta);
    switch (r.scaling) {
      case RopeScaling::none:
        return;
      case RopeScaling::linear:
        to_.set(key("rope.scaling.type"), GgufValue::text("linear"));
        return real("rope.scaling.factor", r.factor);
      case RopeScaling::yarn:
        return yarn();
      case RopeScaling::llama3:
        if (!family_.has(F::llama3_rope)) refuse("no rope scaling 'llama3'");
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
    if (r.beta_fast != 32 || r.beta_slow != 1)
      refuse("YaRN with beta_fast 32 and beta_slow 1; this model's are {:g} and {:g}", r.beta_fast, r.beta_slow);
    if (r.mscale_all_dim != 0) real("rope.scaling.yarn_log_multiplier", 0.1 * r.mscale_all_dim);
    if (!r.truncate && s_.model_type == "gpt_oss")
      warn("truncates YaRN's bounds, which 'truncate': false forbids: frequencies differ slightly");
    else if (!r.truncate) refuse("no YaRN without truncation ('truncate': false)");
    if (!s_.latent && r.attention_factor != 0 && std::abs(r.attention_factor / yarn_attention_factor(r) - 1) > 1e-4)
      refuse("YaRN's attention_factor {:.6g} for this factor; this model's is {:.6g}", yarn_attention_factor(r),
             r.attention_factor);
  }

  void longrope() {
    const RopeSpec& r = s_.rope;
    if (!family_.has(F::longrope)) return refuse("no rope scaling 'longrope'");
    const double factor =
        r.factor > 1 ? r.factor : static_cast<double>(s_.max_positions) / static_cast<double>(r.original_positions);
    const double attention =
        r.attention_factor != 0 ? r.attention_factor
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

void write_model_keys(const ModelSpec& spec, const GgufFamily& family, const std::string& source, GgufMetadata& to) {
  KeyWriter(spec, family, source, to).write();
}

}  // namespace dml
