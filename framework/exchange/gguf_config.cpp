// Converts the keys of a GGUF file to a ModelSpec and config.json: the inverse of gguf_keys.cpp.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include "checkpoint/model_config.h"
#include "core/error.h"
#include "exchange/gguf_families.h"
#include "exchange/gguf_model.h"
#include "exchange/gguf_tensors.h"
#include "kernels/weight.h"

namespace dml {
namespace {

using F = GgufFamily;

class SpecOf {
 public:
  explicit SpecOf(const GgufFile& file) : file_(file), arch_(file.text("general.architecture")), family_(find()) {}

  ModelSpec read() {
    s_.model_type = family_.model_type;
    s_.naming = find_family(s_.model_type)->naming;
    sizes();
    ids();
    biases_and_scales();
    if (whole("expert_count", 0) > 0) experts();
    if (family_.has(F::leading_dense)) latent();
    layers();
    if (s_.positions == Positions::rope) rope();
    return std::move(s_);
  }

 private:
  // Families that share an architecture are distinguished by keys or tensors that only one of them has.
  const F& find() const {
    std::vector<std::string> names;
    const bool mixture = whole("expert_count", 0) > 0, slides = whole("attention.sliding_window", 0) > 0;
    for (const F& f : gguf_families()) {
      const bool fits = f.has(F::experts) == mixture && (arch_ != "olmo2" || (f.full_window > 0) == slides);
      if (f.architecture == arch_ && fits) return f;
      names.emplace_back(f.architecture);
    }
    throw UserError("{}: architecture '{}'{} is not supported; known are {}", file_.path(), arch_,
                    mixture ? " with experts" : "", fmt::join(names, ", "));
  }
  std::string key(std::string_view name) const { return fmt::format("{}.{}", arch_, name); }
  std::int64_t whole(std::string_view name) const { return file_.integer(key(name)); }
  std::int64_t whole(std::string_view name, std::int64_t fallback) const { return file_.integer(key(name), fallback); }
  double real(std::string_view name, double fallback) const { return shortest(file_.number(key(name), fallback)); }
  // The decimal number that a float32 of the file was made from, for config.json.
  static double shortest(double x) { return std::strtod(fmt::format("{}", static_cast<float>(x)).c_str(), nullptr); }
  bool has(std::string_view tensor) const { return file_.find(tensor) != nullptr; }
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw UserError("{}: {}", file_.path(), fmt::format(text, std::forward<Args>(args)...));
  }

  void sizes() {
    const GgufTensorView* table = file_.find("token_embd.weight");
    if (!table || table->shape.size() != 2) refuse("tensor 'token_embd.weight' is missing, or no matrix");
    s_.vocab = table->shape[0];
    s_.tied = !has("output.weight");
    s_.hidden = whole("embedding_length"), s_.heads = whole("attention.head_count");
    if (s_.hidden < 1 || s_.heads < 1)
      refuse("embedding_length {} and head_count {} must be above 0", s_.hidden, s_.heads);
    s_.layers = whole("block_count");
    constexpr std::int64_t kMaxLayers = 2048;
    if (s_.layers < 0 || s_.layers > kMaxLayers) refuse("block_count must be 0 to {}, is {}", kMaxLayers, s_.layers);
    s_.ffn = whole("feed_forward_length");
    s_.kv_heads = whole("attention.head_count_kv", s_.heads);
    s_.head_dim = whole("attention.key_length", s_.hidden / s_.heads);
    if (!family_.has(F::leading_dense) && whole("attention.value_length", s_.head_dim) != s_.head_dim)
      refuse("keys and values of different lengths are not supported");
    s_.max_positions = whole("context_length");
    const std::string rms = key("attention.layer_norm_rms_epsilon");
    s_.norm.kind = file_.metadata().find(rms) ? NormKind::rms : NormKind::layer;
    s_.norm.eps = shortest(file_.number(s_.norm.kind == NormKind::rms ? rms : key("attention.layer_norm_epsilon")));
    s_.activation = family_.activation;
    s_.positions = s_.model_type == "gpt2"                              ? Positions::learned
                   : s_.model_type == "bloom" || s_.model_type == "mpt" ? Positions::alibi
                                                                        : Positions::rope;
  }

  void ids() {
    auto id = [&](const char* name) {
      const std::string k = std::string("tokenizer.ggml.") + name;
      return file_.metadata().find(k) ? static_cast<Token>(file_.integer(k)) : Token{-1};
    };
    s_.bos = id("bos_token_id");
    for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"})
      if (const Token end = id(name); end >= 0 && std::ranges::find(s_.eos, end) == s_.eos.end()) s_.eos.push_back(end);
    s_.pad = id("padding_token_id");
  }

  void biases_and_scales() {
    s_.bias = {.qkv = has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias"),
               .out = has("blk.0.attn_output.bias"),
               .mlp = has("blk.0.ffn_up.bias"),
               .head = has("output.bias")};
    if (has("blk.0.attn_q_norm.weight")) s_.qk_norm.over = QkNormSpec::Over::per_head;  // the family defines its scope
    s_.residual.parallel = file_.truth(key("use_parallel_residual"), family_.has(F::parallel_only));
    if (family_.has(F::scales)) {
      s_.embedding_scale = real("embedding_scale", 1);
      s_.scales_noise = true;
      s_.residual.scale = real("residual_scale", 1);
      s_.logit_scale = 1 / real("logit_scale", 1);
    } else if (family_.has(F::logit_scale)) {
      s_.logit_scale = real("logit_scale", 1);
    }
    // The value that llama.cpp computes if the architecture has no key.
    if (s_.model_type.starts_with("gemma") || family_.has(F::scales)) {
      s_.scores.scale = family_.score_scale(s_);
      if (const double given = real("attention.scale", 0); given > 0) s_.scores.scale = given;
    }
    s_.scores.softcap = real("attn_logit_softcapping", s_.model_type == "gemma2" ? 50 : 0);
    s_.final_softcap = real("final_logit_softcapping", s_.model_type == "gemma2" ? 30 : 0);
    s_.scores.alibi_bias_max = real("attention.max_alibi_bias", 8);
    s_.scores.clip = real("attention.clamp_kqv", 0);
  }

  void experts() {
    MoeSpec& m = s_.moe;
    m.experts = whole("expert_count");
    m.chosen = whole("expert_used_count");
    m.ffn = whole("expert_feed_forward_length", s_.ffn);
    m.normalize = family_.has(F::normalized);
    m.shared_ffn = whole("expert_shared_feed_forward_length", 0);
    if (!family_.has(F::leading_dense)) return;
    if (whole("expert_gating_func", 1) != 2)
      refuse("experts are chosen by a softmax; only deepseek_v3's sigmoid is supported");
    m.normalize = file_.truth(key("expert_weights_norm"), false);
    m.scale = real("expert_weights_scale", 1);
    m.groups = whole("expert_group_count", 1), m.chosen_groups = whole("expert_group_used_count", 1);
    m.shared_ffn = whole("expert_shared_count", 0) * m.ffn;
    const std::int64_t dense = whole("leading_dense_block_count", 0);
    m.dense.assign(static_cast<std::size_t>(s_.layers), false);
    std::fill_n(m.dense.begin(), std::clamp<std::int64_t>(dense, 0, s_.layers), true);
  }

  void latent() {
    LatentSpec& l = s_.latent;
    l.q_rank = whole("attention.q_lora_rank", 0), l.kv_rank = whole("attention.kv_lora_rank");
    l.rope = whole("rope.dimension_count");
    // Files that store latent keys and values uncompressed have other key lengths.
    l.nope = whole("attention.key_length_mla", whole("attention.key_length")) - l.rope;
    l.value = whole("attention.value_length_mla", whole("attention.value_length"));
    s_.kv_heads = s_.heads;
  }

  void layers() {
    const std::int64_t window = whole("attention.sliding_window", 0);
    if (s_.model_type == "phi3" && window > 0) s_.windows.assign(static_cast<std::size_t>(s_.layers), window);
    bool slides = false, stays = false;
    for (std::int64_t l = 0; l < s_.layers; ++l) {
      slides |= family_.slides(s_, l) && window > 0;
      stays |= !family_.turns(s_, l);
    }
    for (std::int64_t l = 0; l < s_.layers; ++l) {
      if (slides) s_.windows.push_back(family_.slides(s_, l) ? window : 0);
      if (stays) s_.without_rope.push_back(!family_.turns(s_, l));
    }
  }

  void rope() {
    RopeSpec& r = s_.rope;
    r.theta = real("rope.freq_base", 10000);
    const std::int64_t rotated = whole("rope.dimension_count", s_.head_dim);
    if (!s_.latent) r.partial = static_cast<double>(rotated) / static_cast<double>(s_.head_dim);
    const std::string kind = file_.text(key("rope.scaling.type"), "none");
    if (kind == "linear" || kind == "yarn") {
      r.scaling = kind == "yarn" ? RopeScaling::yarn : RopeScaling::linear;
      r.factor = real("rope.scaling.factor", 1);
    } else if (kind != "none" && kind != "longrope") {
      refuse("rope scaling '{}' is not supported", kind);
    }
    if (kind == "yarn") {
      r.original_positions = whole("rope.scaling.original_context_length");
      r.beta_fast = real("rope.scaling.yarn_beta_fast", 32), r.beta_slow = real("rope.scaling.yarn_beta_slow", 1);
      r.mscale_all_dim = 10 * real("rope.scaling.yarn_log_multiplier", 0);
      r.truncate = s_.model_type != "gpt_oss";  // as in its models; there is no key for it
    }
    if (has("rope_freqs.weight")) llama3();
    if (has("rope_factors_long.weight")) {
      r.scaling = RopeScaling::longrope;
      r.long_factor = floats("rope_factors_long.weight"), r.short_factor = floats("rope_factors_short.weight");
      r.original_positions = whole("rope.scaling.original_context_length");
      const auto original = static_cast<double>(std::max<std::int64_t>(1, r.original_positions));
      r.factor = std::max(1.0, static_cast<double>(s_.max_positions) / original);
      r.attention_factor = real("rope.scaling.attn_factor", 1);
    }
    if (s_.model_type == "gemma3_text") s_.rope_local = RopeSpec{};
    if (s_.model_type == "olmo3") s_.rope_local = RopeSpec{.theta = r.theta};
  }

  std::vector<double> floats(const char* name) const {
    const GgufTensorView* t = file_.find(name);
    if (!t || t->type->dtype != DType::f32 || t->shape.size() != 1) refuse("tensor '{}' must be a list of f32", name);
    std::vector<float> x(static_cast<std::size_t>(t->elements()));
    kernels::unpack({DType::f32, 1, t->elements(), t->data.data()}, 0, 1, 0, t->elements(), x.data());
    return {x.begin(), x.end()};
  }

  // The file has the factors; Hugging Face has the parameters that they were computed from. All published models use
  // low and high frequency factors 1 and 4.
  void llama3() {
    const std::vector<double> given = floats("rope_freqs.weight");
    if (given.empty() || s_.head_dim != 2 * std::ssize(given))
      refuse("'rope_freqs.weight' has {} factors for heads of {}", given.size(), s_.head_dim);
    RopeSpec& r = s_.rope;
    r.scaling = RopeScaling::llama3;
    r.factor = *std::ranges::max_element(given);
    r.low_freq_factor = 1, r.high_freq_factor = 4;
    for (const std::int64_t original : original_lengths(given)) {
      r.original_positions = original;
      if (std::ranges::equal(llama3_factors(r, s_.head_dim), given,
                             [](double a, double b) { return std::abs(a - b) <= 1e-4 * b; }))
        return;
    }
    refuse("the factors of 'rope_freqs.weight' are not those of rope scaling 'llama3'");
  }

  // Original lengths to try: powers of two, as in published models, and what the first factor between 1 and the largest
  // says (llama3_factors() solved for the length). Without such a factor, several lengths have the same factors.
  std::vector<std::int64_t> original_lengths(const std::vector<double>& given) const {
    const RopeSpec& r = s_.rope;
    std::vector<std::int64_t> out;
    for (std::int64_t original = 256; original <= 1 << 20; original *= 2) out.push_back(original);
    const auto between = std::ranges::find_if(given, [&](double x) { return x > 1 && x < r.factor; });
    if (between != given.end()) {
      const auto i = static_cast<double>(between - given.begin());
      const double smooth = (1 / *between - 1 / r.factor) / (1 - 1 / r.factor);
      const double turns = smooth * (r.high_freq_factor - r.low_freq_factor) + r.low_freq_factor;
      const double wave = 2 * std::numbers::pi * std::pow(r.theta, 2 * i / static_cast<double>(s_.head_dim));
      if (const double length = std::round(turns * wave); length >= 1 && length <= 1 << 30)
        out.push_back(static_cast<std::int64_t>(length));
    }
    for (std::int64_t original = 128; original >= 1; original /= 2) out.push_back(original);
    return out;
  }

  const GgufFile& file_;
  std::string arch_;
  const F& family_;
  ModelSpec s_;
};

}  // namespace

Json gguf_config(const GgufFile& file) {
  const std::int64_t type = file.integer("general.file_type", 0);
  const ModelSpec spec = SpecOf(file).read();
  Json config = config_json(spec, type == 32 ? "bfloat16" : type == 0 ? "float32" : "float16");
  // The parallel blocks have two norms; most Falcon models have one.
  if (spec.model_type == "falcon" && file.find("blk.0.attn_norm_2.weight"))
    config["new_decoder_architecture"] = true, config["num_ln_in_parallel_attn"] = 2;
  return config;
}

}  // namespace dml
