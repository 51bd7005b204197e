#include "model/weight_names.h"

#include "core/error.h"

namespace dml {
namespace {

class Lister {
 public:
  explicit Lister(const ModelSpec& spec) : spec_(spec), names_(*spec.naming) {}

  std::vector<WeightName> list() {
    auto& s = spec_;
    matrix(WeightRole::embed, names_.embed, s.vocab, s.hidden, false, false);
    if (s.learned_positions) matrix(WeightRole::positions, names_.positions, s.max_positions, s.hidden, false, false);
    for (layer_ = 0; layer_ < s.layers; ++layer_) list_layer();
    layer_ = -1;
    norm(WeightRole::final_norm, names_.final_norm, s.hidden, s.norm_bias);
    if (!s.tied) matrix(WeightRole::head, names_.head, s.vocab, s.hidden, s.head_bias, false);
    return std::move(out_);
  }

 private:
  void list_layer() {
    auto& s = spec_;
    std::int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    norm(WeightRole::input_norm, names_.input_norm, s.hidden, s.norm_bias);
    if (s.fused_by_head) {
      matrix(WeightRole::qkv, names_.qkv, q + 2 * kv, s.hidden, s.qkv_bias);
    } else if (s.fused_qkv) {
      std::int64_t all = q + 2 * kv;
      part(WeightRole::q, names_.qkv, 0, q, all, s.hidden, s.qkv_bias);
      part(WeightRole::k, names_.qkv, q, kv, all, s.hidden, s.qkv_bias);
      part(WeightRole::v, names_.qkv, q + kv, kv, all, s.hidden, s.qkv_bias);
    } else {
      matrix(WeightRole::q, names_.q, q, s.hidden, s.qkv_bias);
      matrix(WeightRole::k, names_.k, kv, s.hidden, s.qkv_bias);
      matrix(WeightRole::v, names_.v, kv, s.hidden, s.qkv_bias);
    }
    matrix(WeightRole::o, names_.o, s.hidden, q, s.out_bias);
    if (s.qk_head_norms) {
      head_norms(WeightRole::q_norm, names_.q_norm, s.heads);
      head_norms(WeightRole::k_norm, names_.k_norm, s.kv_heads);
    } else if (s.qk_norm) {
      norm(WeightRole::q_norm, names_.q_norm, s.qk_norm_whole ? q : s.head_dim, s.qk_norm_bias);
      norm(WeightRole::k_norm, names_.k_norm, s.qk_norm_whole ? kv : s.head_dim, s.qk_norm_bias);
    }
    norm(WeightRole::post_attention_norm, names_.post_attention_norm, s.hidden, s.norm_bias);
    if (!s.shared_input_norm) norm(WeightRole::pre_ffn_norm, names_.pre_ffn_norm, s.hidden, s.norm_bias);
    if (s.gated && s.fused_gate_up) {
      part(WeightRole::gate, names_.gate_up, 0, s.ffn, 2 * s.ffn, s.hidden, s.mlp_bias);
      part(WeightRole::up, names_.gate_up, s.ffn, s.ffn, 2 * s.ffn, s.hidden, s.mlp_bias);
    } else {
      if (s.gated) matrix(WeightRole::gate, names_.gate, s.ffn, s.hidden, s.mlp_bias);
      matrix(WeightRole::up, names_.up, s.ffn, s.hidden, s.mlp_bias);
    }
    matrix(WeightRole::down, names_.down, s.hidden, s.ffn, s.mlp_bias);
    norm(WeightRole::post_ffn_norm, names_.post_ffn_norm, s.hidden, s.norm_bias);
  }

  std::string full(const char* module) const {
    DML_CHECK(module != nullptr, "{} names no such weight", spec_.model_type);
    return layer_ < 0 ? module : fmt::format("{}.{}.{}", names_.layers, layer_, module);
  }
  void norm(WeightRole role, const char* module, std::int64_t width, bool bias) {
    if (!module) return;
    for (bool b : {false, true})
      if (!b || bias)
        out_.push_back({role, b, layer_, full(module) + (b ? ".bias" : ".weight"), width, 1, true, 0, width, false});
  }
  void head_norms(WeightRole role, const char* module, std::int64_t heads) {
    const std::int64_t width = spec_.head_dim;
    for (std::int64_t h = 0; h < heads; ++h) {
      if (spec_.qk_norms_stacked)
        out_.push_back({role, false, layer_, full(module) + ".weight", width, 1, true, h * width, heads * width});
      else norm(role, fmt::format("{}.norms.{}", module, h).c_str(), width, false);
      out_.back().head = h;
      out_.back().stacked = spec_.qk_norms_stacked ? heads : 0;
    }
  }
  void matrix(WeightRole role, const char* module, std::int64_t rows, std::int64_t cols, bool bias,
              bool linear = true) {
    part(role, module, 0, rows, rows, cols, bias, linear);
  }
  void part(WeightRole role, const char* module, std::int64_t first, std::int64_t rows, std::int64_t all,
            std::int64_t cols, bool bias, bool linear = true) {
    bool transposed = spec_.conv1d_layout && linear;
    out_.push_back({role, false, layer_, full(module) + ".weight", rows, cols, false, first, all, transposed});
    if (bias) out_.push_back({role, true, layer_, full(module) + ".bias", rows, 1, true, first, all, false});
  }

  const ModelSpec& spec_;
  const Naming& names_;
  std::int64_t layer_ = -1;
  std::vector<WeightName> out_;
};

}  // namespace

std::vector<std::int64_t> WeightName::tensor_shape() const {
  if (stacked > 0) return {stacked, tensor_rows / stacked};
  if (vector) return {tensor_rows};
  if (transposed) return {cols, tensor_rows};
  return {tensor_rows, cols};
}

std::string WeightName::module() const { return tensor.substr(0, tensor.rfind('.')); }

std::vector<WeightName> weight_names(const ModelSpec& spec) { return Lister(spec).list(); }

bool is_linear(const WeightName& weight) {
  switch (weight.role) {
    case WeightRole::q:
    case WeightRole::k:
    case WeightRole::v:
    case WeightRole::qkv:
    case WeightRole::o:
    case WeightRole::gate:
    case WeightRole::up:
    case WeightRole::down:
      return !weight.bias;
    default:
      return false;
  }
}

std::vector<AdaptableModule> adaptable_modules(const ModelSpec& spec) {
  std::vector<AdaptableModule> out;
  for (auto& w : weight_names(spec)) {
    bool embedding = w.role == WeightRole::embed, head = w.role == WeightRole::head && !w.bias;
    if ((embedding || head || is_linear(w)) && w.first_row == 0)
      out.push_back({w.module(), w.tensor_rows, w.cols, embedding, head});
  }
  return out;
}

}  // namespace dml
