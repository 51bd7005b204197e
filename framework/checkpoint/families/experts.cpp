// The families with mixtures of experts. Where transformers 4 and 5 spell a key differently, both are read.
#include <algorithm>
#include <cmath>

#include "checkpoint/families/groups.h"
#include "checkpoint/model_files.h"
#include "core/error.h"
#include "core/shown.h"
#include "model/mxfp4_names.h"

namespace dml {
namespace {

constexpr ExpertNaming kMixtralExperts{
    .router = "block_sparse_moe.gate", .experts = "block_sparse_moe.experts", .gate = "w1", .up = "w3", .down = "w2"};
constexpr ExpertNaming kGraniteExperts{.router = "block_sparse_moe.router.layer",
                                       .gate_up = "block_sparse_moe.input_linear.weight",
                                       .stacked_down = "block_sparse_moe.output_linear.weight",
                                       .target_gate_up = "block_sparse_moe.experts.gate_up_proj",
                                       .target_down = "block_sparse_moe.experts.down_proj"};
constexpr ExpertNaming kGptOssExperts{.router = "mlp.router"};
constexpr ExpertNaming kDeepseekExperts{.shared = "mlp.shared_experts"};

/// What transformers assumes of the experts when a key is absent.
struct ExpertDefaults {
  std::int64_t experts, chosen;
  double balance = 0.001;
};

// The losses of routers are there if output_router_logits is true: without it transformers adds none.
void losses(ConfigFields& c, MoeSpec& m, double balance) {
  bool wanted = m.balance != 0 || m.z != 0;
  c.flag("output_router_logits", wanted, false);
  if (!wanted) return;
  c.number("router_aux_loss_coef", m.balance, balance);
  c.number("router_z_loss_coef", m.z, 0);
}

// Under its own key, or under the `other` name that transformers has for it.
void expert_count(ConfigFields& c, MoeSpec& m, const char* key, const char* other, std::int64_t fallback) {
  const auto* from = c.reader();
  const bool renamed = from && other && from->has(other);
  const char* given = renamed && !from->has(key) ? other : key;
  c.integer(given, m.experts, fallback);
  if (!from) return;
  if (m.experts < 1) throw UserError("{}: '{}' must be above 0, is {}", from->source(), given, m.experts);
  if (const std::int64_t same = renamed ? from->integer(other, m.experts) : m.experts; same != m.experts)
    throw UserError("{}: '{}' is {}, but '{}', which is the same, is {}", from->source(), key, m.experts, other, same);
}

void experts_per_token(ConfigFields& c, MoeSpec& m, std::int64_t fallback) {
  constexpr const char* kKey = "num_experts_per_tok";
  if (c.reader() && c.reader()->is_null(kKey))
    throw UserError("{}: '{}' is null, expected 1 to the number of experts, {}", c.reader()->source(), kKey, m.experts);
  c.integer(kKey, m.chosen, fallback);
}

void experts(ConfigFields& c, ModelSpec& s, const char* key, const char* other, const ExpertDefaults& defaults) {
  expert_count(c, s.moe, key, other, defaults.experts);
  experts_per_token(c, s.moe, defaults.chosen);
  losses(c, s.moe, defaults.balance);
}

void mixtral(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1e-5, .kv_heads = 8, .rope_theta = 1e6, .max_positions = 131072});
  c.same_windows(s, 0);
  experts(c, s, "num_local_experts", "num_experts", {.experts = 8, .chosen = 2});
  s.moe.ffn = s.ffn;
  c.number("router_jitter_noise", s.moe.jitter, 0);
  if (c.reader()) s.moe.naming = &kMixtralExperts;
}

// Experts on every decoder_sparse_step-th layer, but not on those of mlp_only_layers.
void dense_layers(ConfigFields& c, ModelSpec& s) {
  std::vector<bool>& dense = s.moe.dense;
  if (Json* to = c.writer()) {
    (*to)["decoder_sparse_step"] = 1;
    Json& list = (*to)["mlp_only_layers"] = Json::array();
    for (std::size_t l = 0; l < dense.size(); ++l)
      if (dense[l]) list.push_back(l);
    return;
  }
  const ConfigReader& from = *c.reader();
  const std::int64_t step = from.integer("decoder_sparse_step", 1);
  if (step < 1) throw UserError("{}: 'decoder_sparse_step' must be above 0, is {}", from.source(), step);
  dense.assign(static_cast<std::size_t>(s.layers), false);
  for (std::int64_t l = 0; l < s.layers; ++l) dense[static_cast<std::size_t>(l)] = (l + 1) % step != 0;
  for (std::int64_t l : from.integers("mlp_only_layers"))
    if (l >= 0 && l < s.layers) dense[static_cast<std::size_t>(l)] = true;
  if (std::ranges::find(dense, true) == dense.end()) dense.clear();
}

void qwen2_moe(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.kv_heads = 16, .max_positions = 32768, .bos = -1, .eos = -1});
  c.flag("qkv_bias", s.bias.qkv, true);
  if (c.windows_in_use(s)) {
    const std::int64_t last = c.reader() ? c.reader()->integer("max_window_layers", 28) : 0;
    c.windows(s, 4096, [&](std::int64_t l) { return l % 2 == 0 && l < last; });
  }
  experts(c, s, "num_experts", "num_local_experts", {.experts = 60, .chosen = 4});
  c.integer("moe_intermediate_size", s.moe.ffn, 1408);
  c.integer("shared_expert_intermediate_size", s.moe.shared_ffn, 5632);
  s.moe.shared_gate = s.moe.shared_ffn > 0;
  c.flag("norm_topk_prob", s.moe.normalize, false);
  dense_layers(c, s);
}

void qwen3_moe(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.kv_heads = 4, .max_positions = 32768, .bos = -1, .eos = -1});
  c.attention_bias(s);
  s.qk_norm.over = QkNormSpec::Over::head;
  bool slides = !s.windows.empty();
  c.flag("use_sliding_window", slides, false);
  if (slides) c.same_windows(s, 4096);
  experts(c, s, "num_experts", "num_local_experts", {.experts = 128, .chosen = 8});
  c.integer("moe_intermediate_size", s.moe.ffn, 768);
  c.flag("norm_topk_prob", s.moe.normalize, false);
  dense_layers(c, s);
}

void olmoe(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.norm_eps = 1e-5, .max_positions = 4096, .bos = -1, .eos = 50279});
  c.attention_bias(s);
  s.qk_norm.over = QkNormSpec::Over::all_heads;
  c.cap("clip_qkv", s.scores.clip, 0);
  experts(c, s, "num_experts", "num_local_experts", {.experts = 64, .chosen = 8, .balance = 0.01});
  s.moe.ffn = s.ffn;
  c.flag("norm_topk_prob", s.moe.normalize, false);
}

void granitemoe(ConfigFields& c, ModelSpec& s) {
  c.common(s, {});
  c.attention_bias(s);
  granite_multipliers(c, s);
  experts(c, s, "num_local_experts", nullptr, {.experts = 8, .chosen = 2});
  s.moe.ffn = s.ffn;
  s.moe.naming = &kGraniteExperts;
  s.moe.layout = ExpertLayout::stacked;
}

void gpt_oss(ConfigFields& c, ModelSpec& s) {
  if (Json* to = c.writer()) s.activation = kernels::Activation::silu, (*to)["swiglu_limit"] = 7;
  c.common(s, {.norm_eps = 1e-5,
               .head_dim = 64,
               .kv_heads = 8,
               .rope_theta = 150000,
               .max_positions = 131072,
               .bos = -1,
               .eos = -1,
               .rope = {.theta = 150000,
                        .scaling = RopeScaling::yarn,
                        .factor = 32,
                        .original_positions = 4096,
                        .truncate = false}});
  if (const auto* from = c.reader()) {
    if (s.activation != kernels::Activation::silu)
      throw UserError("{}: 'hidden_act' is '{}', but a gpt_oss has a clamped silu", from->source(),
                      activation_name(s.activation));
    for (auto [key, only] : {std::pair{"swiglu_limit", 7.0}, {"swiglu_alpha", 1.702}})
      if (const double value = from->number(key, only); std::abs(value - only) > 1e-6)
        throw UserError("{}: '{}' is {}, only {} is supported", from->source(), key, value, only);
    s.activation = kernels::Activation::clamped_silu;
  }
  c.attention_bias(s, "attention_bias", true);
  s.scores.sinks = true;
  c.windows(s, 128, [](std::int64_t l) { return l % 2 == 0; });
  experts(c, s, "num_local_experts", "num_experts", {.experts = 128, .chosen = 4});
  s.moe.ffn = s.ffn;
  s.moe.bias = true;
  s.moe.naming = &kGptOssExperts;
  if (c.reader()) s.moe.layout = ExpertLayout::transposed;
}

// DeepSeek multiplies scores by the square of what yarn multiplies cosines by.
double latent_scale(const ModelSpec& s) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.latent.nope + s.latent.rope));
  if (s.rope.scaling == RopeScaling::none || s.rope.mscale_all_dim == 0 || s.rope.factor <= 1) return scale;
  const double m = 0.1 * s.rope.mscale_all_dim * std::log(s.rope.factor) + 1;
  return scale * m * m;
}

void latent(ConfigFields& c, ModelSpec& s) {
  LatentSpec& l = s.latent;
  const auto* from = c.reader();
  if (Json* to = c.writer(); to && l.q_rank == 0) (*to)["q_lora_rank"] = nullptr;
  else if (!from || !from->is_null("q_lora_rank")) c.integer("q_lora_rank", l.q_rank, 1536);
  c.integer("kv_lora_rank", l.kv_rank, 512);
  c.integer("qk_nope_head_dim", l.nope, 128);
  c.integer("qk_rope_head_dim", l.rope, 64);
  c.integer("v_head_dim", l.value, 128);
  c.flag("rope_interleave", l.interleaved, true);
  if (!from) return;
  for (auto [key, value] : {std::pair{"kv_lora_rank", l.kv_rank},
                            {"qk_nope_head_dim", l.nope},
                            {"qk_rope_head_dim", l.rope},
                            {"v_head_dim", l.value}})
    if (value < 1 || value > (1 << 16))
      throw UserError("{}: '{}' must be 1 to 65536, is {}", from->source(), key, value);
  s.kv_heads = s.heads;
  s.head_dim = std::max(l.nope + l.rope, l.value);
  s.rope.partial = std::nextafter(static_cast<double>(l.rope) / static_cast<double>(s.head_dim), 1.0);
  s.scores.scale = latent_scale(s);
}

// "head_dim" is that of the turned part, and no key says which share it is.
void write_latent_head(const ModelSpec& s, Json& to) {
  to["head_dim"] = s.latent.rope;
  to["n_shared_experts"] = s.moe.shared_ffn / s.moe.ffn;
  to["first_k_dense_replace"] = std::ranges::count(s.moe.dense, true);
}

void deepseek_v3(ConfigFields& c, ModelSpec& s) {
  c.common(s, {.head_dim = 64, .kv_heads = 128, .partial_rotary = 0, .max_positions = 4096, .bos = 0, .eos = 1});
  c.attention_bias(s);
  latent(c, s);
  MoeSpec& m = s.moe;
  expert_count(c, m, "n_routed_experts", "num_local_experts", 256);
  experts_per_token(c, m, 8);
  c.integer("moe_intermediate_size", m.ffn, 2048);
  c.flag("norm_topk_prob", m.normalize, true);
  c.number("routed_scaling_factor", m.scale, 2.5);
  c.integer("n_group", m.groups, 8);
  c.integer("topk_group", m.chosen_groups, 4);
  m.sigmoid = m.correction = true;
  m.naming = &kDeepseekExperts;
  if (Json* to = c.writer()) return write_latent_head(s, *to);
  const ConfigReader& from = *c.reader();
  const std::int64_t shared = from.integer("n_shared_experts", 1);
  if (shared < 0 || shared > 1024)
    throw UserError("{}: 'n_shared_experts' must be 0 to 1024, is {}", from.source(), shared);
  constexpr std::int64_t kMaxFfn = 1 << 20;  // spec.check() reports an ffn beyond that
  m.shared_ffn = m.ffn > 0 && m.ffn <= kMaxFfn ? shared * m.ffn : 0;
  if (const std::string score = from.text("scoring_func", "sigmoid"); score != "sigmoid")
    throw UserError("{}: 'scoring_func' is '{}', but a deepseek_v3 scores by sigmoid", from.source(), shown(score, 60));
  const std::int64_t first = from.integer("first_k_dense_replace", 3);
  if (first > 0) {
    m.dense.assign(static_cast<std::size_t>(s.layers), false);
    std::fill_n(m.dense.begin(), std::min(first, s.layers), true);
  }
}

}  // namespace

FamilyGroup expert_families() {
  return {
      {"mixtral", "MixtralForCausalLM", "Mixtral: Mistral with experts", mixtral},
      {"qwen2_moe", "Qwen2MoeForCausalLM", "Qwen 1.5 and 2 MoE: experts beside a gated shared one", qwen2_moe},
      {"qwen3_moe", "Qwen3MoeForCausalLM", "Qwen 3 MoE: 128 experts, norms on q and k", qwen3_moe},
      {"olmoe", "OlmoeForCausalLM", "OLMoE: 64 experts, norms on the whole of q and k", olmoe},
      {"granitemoe", "GraniteMoeForCausalLM", "Granite MoE: stacked experts, multipliers", granitemoe},
      {"gpt_oss", "GptOssForCausalLM", "gpt-oss: sinks, alternating windows, clamped gates", gpt_oss},
      {"deepseek_v3", "DeepseekV3ForCausalLM", "DeepSeek V3 and R1: latent attention, groups of experts", deepseek_v3},
  };
}

void fit_expert_layout(ModelSpec& spec, const ModelFiles& files) {
  MoeSpec& m = spec.moe;
  if (m.experts == 0) return;
  for (const TensorView& t : files.tensors()) {
    const std::string_view name = t.name;
    if (m.layout == ExpertLayout::transposed && name.ends_with(fmt::format(".{}{}", m.naming->gate_up, kMxfp4Codes))) {
      m.layout = ExpertLayout::mxfp4;
      return;
    }
    if (m.layout == ExpertLayout::each && name.ends_with(fmt::format(".{}", kQwenExperts.gate_up))) {
      m.layout = ExpertLayout::stacked;
      if (m.naming == &kMixtralExperts) m.naming = &kQwenExperts;
      return;
    }
  }
}

}  // namespace dml
