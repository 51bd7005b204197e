#include "model/weight_names.h"

#include "core/error.h"
#include "kernels/weight.h"

namespace dml {
namespace {

class Lister {
 public:
  explicit Lister(const ModelSpec& spec) : spec_(spec), names_(*spec.naming) {}

  std::vector<WeightName> list() {
    auto& s = spec_;
    matrix(WeightRole::embed, names_.embed, s.vocab, s.hidden, false, false);
    norm(WeightRole::embed_norm, names_.embed_norm, s.hidden, s.norm.bias);
    if (s.positions == Positions::learned)
      matrix(WeightRole::positions, names_.positions, s.max_positions, s.hidden, false, false);
    for (layer_ = 0; layer_ < s.layers; ++layer_) list_layer();
    layer_ = -1;
    norm(WeightRole::final_norm, names_.final_norm, s.hidden, s.norm.bias);
    const bool tokens = s.head == HeadKind::token_classification;
    if (s.head != HeadKind::causal_lm)
      matrix(WeightRole::head, tokens ? names_.token_score : names_.score, s.labels, s.hidden, tokens, false);
    else if (!s.tied) matrix(WeightRole::head, names_.head, s.vocab, s.hidden, false, false);
    if (s.bias.head)
      out_.push_back({WeightRole::head, true, layer_, full(names_.head) + ".bias", s.vocab, 1, true, 0, s.vocab});
    for (WeightName& w : out_) name_module(w);
    return std::move(out_);
  }

 private:
  void list_layer() {
    auto& s = spec_;
    std::int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    norm(WeightRole::input_norm, names_.input_norm, s.hidden, s.norm.bias);
    if (s.latent) {
      list_latent();
    } else if (s.stored.qkv == StorageSpec::Qkv::by_head) {
      matrix(WeightRole::qkv, names_.qkv, q + 2 * kv, s.hidden, s.bias.qkv);
    } else if (s.stored.qkv == StorageSpec::Qkv::stacked) {
      std::int64_t all = q + 2 * kv;
      part(WeightRole::q, names_.qkv, 0, q, all, s.hidden, s.bias.qkv);
      part(WeightRole::k, names_.qkv, q, kv, all, s.hidden, s.bias.qkv);
      part(WeightRole::v, names_.qkv, q + kv, kv, all, s.hidden, s.bias.qkv);
    } else {
      matrix(WeightRole::q, names_.q, q, s.hidden, s.bias.qkv);
      matrix(WeightRole::k, names_.k, kv, s.hidden, s.bias.qkv);
      matrix(WeightRole::v, names_.v, kv, s.hidden, s.bias.qkv);
    }
    matrix(WeightRole::o, names_.o, s.hidden, s.latent ? s.heads * s.latent.value : q, s.bias.out);
    if (s.scores.sinks)
      out_.push_back({WeightRole::sinks, false, layer_, full("self_attn.sinks"), s.heads, 1, true, 0, s.heads});
    if (s.qk_norm.per_head()) {
      head_norms(WeightRole::q_norm, names_.q_norm, s.heads);
      head_norms(WeightRole::k_norm, names_.k_norm, s.kv_heads);
    } else if (s.qk_norm) {
      const bool whole = s.qk_norm.over == QkNormSpec::Over::all_heads;
      norm(WeightRole::q_norm, names_.q_norm, whole ? q : s.head_dim, s.qk_norm.bias);
      norm(WeightRole::k_norm, names_.k_norm, whole ? kv : s.head_dim, s.qk_norm.bias);
    }
    norm(WeightRole::post_attention_norm, names_.post_attention_norm, s.hidden, s.norm.bias);
    if (!s.residual.shared_norm) norm(WeightRole::pre_ffn_norm, names_.pre_ffn_norm, s.hidden, s.norm.bias);
    if (s.sparse(layer_)) {
      list_experts();
    } else if (s.gated && s.stored.gate_up) {
      part(WeightRole::gate, names_.gate_up, 0, s.ffn, 2 * s.ffn, s.hidden, s.bias.mlp);
      part(WeightRole::up, names_.gate_up, s.ffn, s.ffn, 2 * s.ffn, s.hidden, s.bias.mlp);
    } else {
      if (s.gated) matrix(WeightRole::gate, names_.gate, s.ffn, s.hidden, s.bias.mlp);
      matrix(WeightRole::up, names_.up, s.ffn, s.hidden, s.bias.mlp);
    }
    if (!s.sparse(layer_)) matrix(WeightRole::down, names_.down, s.hidden, s.ffn, s.bias.mlp);
    if (s.activation == kernels::Activation::xielu) {
      scalar(WeightRole::alpha_p, "alpha_p", 0.2033f, false);   // softplus(0.2033) = 0.8
      scalar(WeightRole::alpha_n, "alpha_n", -1.0502f, false);  // 0.5 + softplus(−1.0502) = 0.8
      scalar(WeightRole::beta, "beta", 0.5f, true);
      scalar(WeightRole::eps, "eps", -1e-6f, true);
    }
    norm(WeightRole::post_ffn_norm, names_.post_ffn_norm, s.hidden, s.norm.bias);
  }

  // "language_model.model.layers.0 …" in a file is the module "model.language_model.layers.0 …"; the module of the head
  // has no prefix.
  void name_module(WeightName& w) const {
    if (!names_.file_prefix) return;
    const std::string module = w.tensor.substr(0, w.tensor.rfind('.')), prefix = names_.file_prefix;
    const std::size_t dot = module.rfind('.');
    w.other_module = module.starts_with(prefix) ? names_.module_prefix + module.substr(prefix.size())
                                                : module.substr(dot == std::string::npos ? 0 : dot + 1);
  }

  void list_latent() {
    const LatentSpec& l = spec_.latent;
    const std::int64_t asking = spec_.heads * (l.nope + l.rope);
    if (l.q_rank > 0) {
      matrix(WeightRole::q_low, "self_attn.q_a_proj", l.q_rank, spec_.hidden, spec_.bias.qkv);
      norm(WeightRole::q_low_norm, "self_attn.q_a_layernorm", l.q_rank, false);
      matrix(WeightRole::q, "self_attn.q_b_proj", asking, l.q_rank, false);
    } else {
      matrix(WeightRole::q, names_.q, asking, spec_.hidden, false);
    }
    matrix(WeightRole::kv_low, "self_attn.kv_a_proj_with_mqa", l.kv_rank + l.rope, spec_.hidden, spec_.bias.qkv);
    norm(WeightRole::kv_low_norm, "self_attn.kv_a_layernorm", l.kv_rank, false);
    matrix(WeightRole::kv, "self_attn.kv_b_proj", spec_.heads * (l.nope + l.value), l.kv_rank, false);
  }
  void list_experts() {
    const MoeSpec& m = spec_.moe;
    const ExpertNaming& n = *m.naming;
    matrix(WeightRole::router, n.router, m.experts, spec_.hidden, m.bias);
    if (m.correction)
      out_.push_back(
          {WeightRole::router_correction, false, layer_, full(n.correction), m.experts, 1, true, 0, m.experts});
    for (std::int64_t e = 0; e < m.experts; ++e)
      m.layout == ExpertLayout::each ? list_expert(e, fmt::format("{}.{}", n.experts, e), m.ffn) : list_stacked(e);
    if (m.shared_ffn > 0) list_expert(kSharedExpert, n.shared, m.shared_ffn);
    if (m.shared_gate) matrix(WeightRole::shared_gate, n.shared_gate, 1, spec_.hidden, false);
  }
  void list_expert(std::int64_t expert, const std::string& module, std::int64_t ffn) {
    const ExpertNaming& n = *spec_.moe.naming;
    const std::size_t first = out_.size();
    matrix(WeightRole::gate, fmt::format("{}.{}", module, n.gate).c_str(), ffn, spec_.hidden, false);
    matrix(WeightRole::up, fmt::format("{}.{}", module, n.up).c_str(), ffn, spec_.hidden, false);
    matrix(WeightRole::down, fmt::format("{}.{}", module, n.down).c_str(), spec_.hidden, ffn, false);
    for (std::size_t i = first; i < out_.size(); ++i) out_[i].expert = expert;
  }
  void list_stacked(std::int64_t expert) {
    const MoeSpec& m = spec_.moe;
    const bool transposed = m.layout == ExpertLayout::transposed, coded = m.layout == ExpertLayout::mxfp4;
    auto add = [&](WeightRole role, const char* tensor, std::int64_t first, std::int64_t rows, std::int64_t all,
                   std::int64_t cols) {
      for (bool bias : {false, true}) {
        if (bias && !m.bias) break;
        const std::string_view end = bias ? "_bias" : coded ? kMxfp4Codes : "";
        WeightName w{.role = role,
                     .bias = bias,
                     .layer = layer_,
                     .tensor = full(tensor).append(end),
                     .rows = rows,
                     .cols = bias ? 1 : cols,
                     .vector = bias,
                     .first_row = expert * all + first,
                     .tensor_rows = m.experts * all,
                     .transposed = transposed && !bias,
                     .expert = expert,
                     .experts = m.experts,
                     .coded = coded && !bias,
                     .interleaved = (transposed || coded) && role != WeightRole::down};
        out_.push_back(std::move(w));
      }
    };
    add(WeightRole::gate, m.naming->gate_up, 0, m.ffn, 2 * m.ffn, spec_.hidden);
    add(WeightRole::up, m.naming->gate_up, m.ffn, m.ffn, 2 * m.ffn, spec_.hidden);
    add(WeightRole::down, m.naming->stacked_down, 0, spec_.hidden, spec_.hidden, m.ffn);
  }

  std::string full(const char* module) const {
    DML_CHECK(module != nullptr, "{} names no such weight", spec_.model_type);
    return layer_ < 0 ? module : fmt::format("{}.{}.{}", names_.layers, layer_, module);
  }
  void norm(WeightRole role, const char* module, std::int64_t width, bool bias) {
    if (!module) return;
    for (bool b : {false, true})
      if (!b || bias)
        out_.push_back({.role = role,
                        .bias = b,
                        .layer = layer_,
                        .tensor = full(module) + (b ? ".bias" : ".weight"),
                        .rows = width,
                        .vector = true,
                        .tensor_rows = width});
  }
  void scalar(WeightRole role, const char* name, float start, bool constant) {
    out_.push_back({.role = role,
                    .layer = layer_,
                    .tensor = fmt::format("{}.{}", full(names_.activation), name),
                    .rows = 1,
                    .vector = true,
                    .tensor_rows = 1,
                    .constant = constant,
                    .start = start});
  }
  void head_norms(WeightRole role, const char* module, std::int64_t heads) {
    const std::int64_t width = spec_.head_dim;
    const bool stacked = spec_.qk_norm.over == QkNormSpec::Over::per_head_stacked;
    for (std::int64_t h = 0; h < heads; ++h) {
      if (stacked)
        out_.push_back({.role = role,
                        .layer = layer_,
                        .tensor = full(module) + ".weight",
                        .rows = width,
                        .vector = true,
                        .first_row = h * width,
                        .tensor_rows = heads * width});
      else norm(role, fmt::format("{}.norms.{}", module, h).c_str(), width, false);
      out_.back().head = h;
      out_.back().stacked = stacked ? heads : 0;
    }
  }
  void matrix(WeightRole role, const char* module, std::int64_t rows, std::int64_t cols, bool bias,
              bool linear = true) {
    part(role, module, 0, rows, rows, cols, bias, linear);
  }
  void part(WeightRole role, const char* module, std::int64_t first, std::int64_t rows, std::int64_t all,
            std::int64_t cols, bool bias, bool linear = true) {
    out_.push_back({.role = role,
                    .layer = layer_,
                    .tensor = full(module) + ".weight",
                    .rows = rows,
                    .cols = cols,
                    .first_row = first,
                    .tensor_rows = all,
                    .transposed = spec_.stored.in_out && linear});
    if (bias)
      out_.push_back({.role = role,
                      .bias = true,
                      .layer = layer_,
                      .tensor = full(module) + ".bias",
                      .rows = rows,
                      .vector = true,
                      .first_row = first,
                      .tensor_rows = all});
  }

  const ModelSpec& spec_;
  const Naming& names_;
  std::int64_t layer_ = -1;
  std::vector<WeightName> out_;
};

}  // namespace

std::vector<std::int64_t> WeightName::tensor_shape() const {
  if (constant) return {};
  if (stacked > 0) return {stacked, tensor_rows / stacked};
  if (coded) return {experts, tensor_rows / experts, cols / kernels::kMxfp4Block, kernels::kMxfp4Block / 2};
  if (experts > 0 && vector) return {experts, tensor_rows / experts};
  if (experts > 0 && transposed) return {experts, cols, tensor_rows / experts};
  if (experts > 0) return {experts, tensor_rows / experts, cols};
  if (vector) return {tensor_rows};
  if (transposed) return {cols, tensor_rows};
  return {tensor_rows, cols};
}

std::string WeightName::module() const {
  if (!other_module.empty()) return other_module;
  return experts > 0 ? tensor : tensor.substr(0, tensor.rfind('.'));
}

std::vector<WeightName> weight_names(const ModelSpec& spec) { return Lister(spec).list(); }

std::size_t unit_of(const WeightName& w, const ModelSpec& spec) {
  if (w.layer >= 0) return static_cast<std::size_t>(w.layer) + 1;
  const bool first = w.role == WeightRole::embed || w.role == WeightRole::embed_norm || w.role == WeightRole::positions;
  return first ? 0 : static_cast<std::size_t>(spec.layers) + 1;
}

bool is_linear(const WeightName& weight) {
  switch (weight.role) {
    case WeightRole::q:
    case WeightRole::k:
    case WeightRole::v:
    case WeightRole::qkv:
    case WeightRole::o:
    case WeightRole::q_low:
    case WeightRole::kv_low:
    case WeightRole::kv:
    case WeightRole::gate:
    case WeightRole::up:
    case WeightRole::down:
      return !weight.bias && !weight.coded;
    default:
      return false;
  }
}

std::vector<AdaptableModule> adaptable_modules(const ModelSpec& spec) {
  std::vector<AdaptableModule> out;
  for (auto& w : weight_names(spec)) {
    bool embedding = w.role == WeightRole::embed, head = w.role == WeightRole::head && !w.bias;
    const bool router = (w.role == WeightRole::router || w.role == WeightRole::shared_gate) && !w.bias;
    if ((embedding || head || router || is_linear(w)) && w.first_row == 0 && w.experts == 0)
      out.push_back(
          {w.module(), w.tensor_rows, w.cols, embedding, head, w.role == WeightRole::router || w.expert >= 0});
  }
  return out;
}

}  // namespace dml
