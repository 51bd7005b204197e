#include "model/weight_names.h"

#include "core/error.h"

namespace dml {
namespace {

/// The words of a naming scheme; a role without a name does not occur in it.
struct Scheme {
  const char *embed, *positions = nullptr, *layer, *final_norm, *head;
  const char *input_norm, *post_attention_norm = nullptr, *pre_ffn_norm, *post_ffn_norm = nullptr;
  const char *q = nullptr, *k = nullptr, *v = nullptr, *o, *qkv, *q_norm = nullptr, *k_norm = nullptr;
  const char *q_head_norms = nullptr, *k_head_norms = nullptr;
  const char *gate = nullptr, *up, *down, *gate_up = nullptr;
};

constexpr Scheme kLlama{.embed = "model.embed_tokens",
                        .layer = "model.layers",
                        .final_norm = "model.norm",
                        .head = "lm_head",
                        .input_norm = "input_layernorm",
                        .pre_ffn_norm = "post_attention_layernorm",
                        .q = "self_attn.q_proj",
                        .k = "self_attn.k_proj",
                        .v = "self_attn.v_proj",
                        .o = "self_attn.o_proj",
                        .qkv = "self_attn.qkv_proj",
                        .q_norm = "self_attn.q_norm",
                        .k_norm = "self_attn.k_norm",
                        .q_head_norms = "self_attn.q_layernorm.norms",
                        .k_head_norms = "self_attn.k_layernorm.norms",
                        .gate = "mlp.gate_proj",
                        .up = "mlp.up_proj",
                        .down = "mlp.down_proj",
                        .gate_up = "mlp.gate_up_proj"};

// With four norms, and with norms behind the blocks, the second Llama name moves to where it says.
constexpr const char* kSandwich[] = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                     "post_feedforward_layernorm"};

constexpr Scheme kGpt2{.embed = "transformer.wte",
                       .positions = "transformer.wpe",
                       .layer = "transformer.h",
                       .final_norm = "transformer.ln_f",
                       .head = "lm_head",
                       .input_norm = "ln_1",
                       .pre_ffn_norm = "ln_2",
                       .o = "attn.c_proj",
                       .qkv = "attn.c_attn",
                       .up = "mlp.c_fc",
                       .down = "mlp.c_proj"};

class Lister {
 public:
  explicit Lister(const ModelSpec& spec) : spec_(spec), scheme_(spec.conv1d_layout ? kGpt2 : kLlama) {
    if (spec.sandwich_norms || spec.norm_after) {
      scheme_.input_norm = spec.norm_after ? nullptr : kSandwich[0];
      scheme_.post_attention_norm = kSandwich[1];
      scheme_.pre_ffn_norm = spec.norm_after ? nullptr : kSandwich[2];
      scheme_.post_ffn_norm = kSandwich[3];
    }
    if (spec.shared_input_norm) scheme_.pre_ffn_norm = nullptr;
  }

  std::vector<WeightName> list() {
    auto& s = spec_;
    matrix(WeightRole::embed, scheme_.embed, s.vocab, s.hidden, false, false);
    if (s.learned_positions) matrix(WeightRole::positions, scheme_.positions, s.max_positions, s.hidden, false, false);
    for (layer_ = 0; layer_ < s.layers; ++layer_) list_layer();
    layer_ = -1;
    norm(WeightRole::final_norm, scheme_.final_norm, s.hidden, s.norm_bias);
    if (!s.tied) matrix(WeightRole::head, scheme_.head, s.vocab, s.hidden, s.head_bias, false);
    return std::move(out_);
  }

 private:
  void list_layer() {
    auto& s = spec_;
    std::int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    norm(WeightRole::input_norm, scheme_.input_norm, s.hidden, s.norm_bias);
    if (s.fused_qkv) {
      std::int64_t all = q + 2 * kv;
      part(WeightRole::q, scheme_.qkv, 0, q, all, s.hidden, s.qkv_bias);
      part(WeightRole::k, scheme_.qkv, q, kv, all, s.hidden, s.qkv_bias);
      part(WeightRole::v, scheme_.qkv, q + kv, kv, all, s.hidden, s.qkv_bias);
    } else {
      matrix(WeightRole::q, scheme_.q, q, s.hidden, s.qkv_bias);
      matrix(WeightRole::k, scheme_.k, kv, s.hidden, s.qkv_bias);
      matrix(WeightRole::v, scheme_.v, kv, s.hidden, s.qkv_bias);
    }
    matrix(WeightRole::o, scheme_.o, s.hidden, q, s.out_bias);
    if (s.qk_norm || s.qk_norm_whole) {
      norm(WeightRole::q_norm, scheme_.q_norm, s.qk_norm_whole ? q : s.head_dim, false);
      norm(WeightRole::k_norm, scheme_.k_norm, s.qk_norm_whole ? kv : s.head_dim, false);
    }
    if (s.qk_head_norms) {
      head_norms(WeightRole::q_norm, scheme_.q_head_norms, s.heads);
      head_norms(WeightRole::k_norm, scheme_.k_head_norms, s.kv_heads);
    }
    norm(WeightRole::post_attention_norm, scheme_.post_attention_norm, s.hidden, s.norm_bias);
    norm(WeightRole::pre_ffn_norm, scheme_.pre_ffn_norm, s.hidden, s.norm_bias);
    if (s.gated && s.fused_gate_up) {
      part(WeightRole::gate, scheme_.gate_up, 0, s.ffn, 2 * s.ffn, s.hidden, s.mlp_bias);
      part(WeightRole::up, scheme_.gate_up, s.ffn, s.ffn, 2 * s.ffn, s.hidden, s.mlp_bias);
    } else {
      if (s.gated) matrix(WeightRole::gate, scheme_.gate, s.ffn, s.hidden, s.mlp_bias);
      matrix(WeightRole::up, scheme_.up, s.ffn, s.hidden, s.mlp_bias);
    }
    matrix(WeightRole::down, scheme_.down, s.hidden, s.ffn, s.mlp_bias);
    norm(WeightRole::post_ffn_norm, scheme_.post_ffn_norm, s.hidden, s.norm_bias);
  }

  std::string full(const char* module) const {
    DML_CHECK(module != nullptr, "{} names no such weight", spec_.model_type);
    return layer_ < 0 ? module : fmt::format("{}.{}.{}", scheme_.layer, layer_, module);
  }
  void norm(WeightRole role, const char* module, std::int64_t width, bool bias) {
    if (!module) return;
    for (bool b : {false, true})
      if (!b || bias)
        out_.push_back({role, b, layer_, full(module) + (b ? ".bias" : ".weight"), width, 1, true, 0, width, false});
  }
  void head_norms(WeightRole role, const char* modules, std::int64_t heads) {
    for (std::int64_t h = 0; h < heads; ++h) {
      norm(role, fmt::format("{}.{}", modules, h).c_str(), spec_.head_dim, false);
      out_.back().head = h;
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
  Scheme scheme_;
  std::int64_t layer_ = -1;
  std::vector<WeightName> out_;
};

}  // namespace

std::vector<std::int64_t> WeightName::tensor_shape() const {
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
