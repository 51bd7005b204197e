#include "exchange/gguf_tensors.h"

#include <cmath>
#include <map>
#include <numbers>

#include "core/error.h"

namespace dml {
namespace {

// The name of an expert weight's module, without "blk.N." and ".weight" or ".bias".
std::string expert_module(const WeightName& w) {
  const char* of = w.expert == kSharedExpert ? "shexp" : "exps";
  return fmt::format("ffn_{}_{}", w.role == WeightRole::gate ? "gate" : w.role == WeightRole::up ? "up" : "down", of);
}

// Names of modules, without "blk.N." and ".weight" or ".bias", for weights whose name depends only on their role.
const std::map<WeightRole, const char*> kModules{{WeightRole::embed, "token_embd"},
                                                 {WeightRole::embed_norm, "token_embd_norm"},
                                                 {WeightRole::positions, "position_embd"},
                                                 {WeightRole::qkv, "attn_qkv"},
                                                 {WeightRole::o, "attn_output"},
                                                 {WeightRole::q_norm, "attn_q_norm"},
                                                 {WeightRole::k_norm, "attn_k_norm"},
                                                 {WeightRole::q_low, "attn_q_a"},
                                                 {WeightRole::q_low_norm, "attn_q_a_norm"},
                                                 {WeightRole::kv_low, "attn_kv_a_mqa"},
                                                 {WeightRole::kv_low_norm, "attn_kv_a_norm"},
                                                 {WeightRole::kv, "attn_kv_b"},
                                                 {WeightRole::sinks, "attn_sinks"},
                                                 {WeightRole::post_attention_norm, "post_attention_norm"},
                                                 {WeightRole::post_ffn_norm, "post_ffw_norm"},
                                                 {WeightRole::router, "ffn_gate_inp"},
                                                 {WeightRole::router_correction, "exp_probs_b"},
                                                 {WeightRole::shared_gate, "ffn_gate_inp_shexp"},
                                                 {WeightRole::up, "ffn_up"},
                                                 {WeightRole::down, "ffn_down"},
                                                 {WeightRole::final_norm, "output_norm"},
                                                 {WeightRole::head, "output"}};

std::string module_name(const WeightName& w, const GgufFamily& family, const ModelSpec& spec) {
  if (w.expert != -1) return expert_module(w);
  const bool fused = w.fused();
  // Of Falcon's two norms, the second one belongs to attention.
  const bool two_norms = family.has(GgufFamily::parallel_only) && !spec.residual.shared_norm;
  switch (w.role) {
    case WeightRole::input_norm:
      return two_norms ? "attn_norm_2" : "attn_norm";
    case WeightRole::q:
      return spec.latent && spec.latent.q_rank > 0 ? "attn_q_b" : fused ? "attn_qkv" : "attn_q";
    case WeightRole::k:
      return fused ? "attn_qkv" : "attn_k";
    case WeightRole::v:
      return fused ? "attn_qkv" : "attn_v";
    case WeightRole::pre_ffn_norm:
      return two_norms ? "attn_norm" : family.has(GgufFamily::late_ffn_norm) ? "post_attention_norm" : "ffn_norm";
    case WeightRole::gate:
      return fused ? "ffn_up" : "ffn_gate";
    default:
      if (const auto module = kModules.find(w.role); module != kModules.end()) return module->second;
  }
  throw UserError("GGUF: '{}' has no name there", w.tensor);
}

bool is_norm(WeightRole role) {
  switch (role) {
    case WeightRole::input_norm:
    case WeightRole::q_norm:
    case WeightRole::k_norm:
    case WeightRole::post_attention_norm:
    case WeightRole::pre_ffn_norm:
    case WeightRole::post_ffn_norm:
    case WeightRole::final_norm:
      return true;
    default:
      return false;
  }
}

std::vector<std::int64_t> shape_of(const GgufTensor& t) {
  const WeightName& first = t.sources[0];
  if (first.head >= 0) return {std::ssize(t.sources), first.rows};
  if (first.role == WeightRole::shared_gate) return {first.cols};
  std::vector<std::int64_t> shape;
  if (first.expert >= 0) shape = {std::ssize(t.sources), first.rows};
  else shape = {t.rows()};
  if (!first.vector) shape.push_back(first.cols);
  return shape;
}

RowOrder order_of(const WeightName& w, const ModelSpec& spec, const GgufFamily& family) {
  const std::int64_t d = spec.head_dim;
  if (w.role == WeightRole::qkv) return {RowOrder::Kind::by_head, spec.heads, spec.kv_heads, d};
  const bool turns = family.paired_rope && (w.role == WeightRole::q || w.role == WeightRole::k);
  return turns ? RowOrder{RowOrder::Kind::paired, 0, 0, d} : RowOrder{};
}

GgufTensor computed(std::string name, std::vector<float> values) {
  GgufTensor t;
  t.name = std::move(name);
  t.shape = {std::ssize(values)};
  t.values = std::move(values);
  return t;
}

}  // namespace

std::int64_t GgufTensor::rows() const {
  if (sources.empty()) return std::ssize(values);
  std::int64_t rows = 0;
  for (const WeightName& w : sources) rows += w.rows;
  return rows;
}

const char* xielu_key(WeightRole role) {
  switch (role) {
    case WeightRole::alpha_p:
      return "xielu.alpha_p";
    case WeightRole::alpha_n:
      return "xielu.alpha_n";
    case WeightRole::beta:
      return "xielu.beta";
    case WeightRole::eps:
      return "xielu.eps";
    default:
      return nullptr;
  }
}

std::int64_t RowOrder::source(std::int64_t row) const {
  if (kind == Kind::paired) {
    const std::int64_t in_head = row % head_dim;
    return row - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
  }
  if (kind == Kind::same) return row;
  // Source: queries, key and value of each key/value head. Target: all queries, all keys, all values.
  const std::int64_t group = heads / kv_heads * head_dim, stride = group + 2 * head_dim, queries = heads * head_dim;
  if (row < queries) return row / group * stride + row % group;
  const std::int64_t other = (row - queries) % (kv_heads * head_dim), of = (row - queries) / (kv_heads * head_dim);
  return other / head_dim * stride + group + of * head_dim + other % head_dim;
}

std::vector<float> llama3_factors(const RopeSpec& r, std::int64_t head_dim) {
  const auto context = static_cast<double>(r.original_positions);
  std::vector<float> factors;
  for (std::int64_t i = 0; i < head_dim; i += 2) {
    const double frequency = std::pow(r.theta, -static_cast<double>(i) / static_cast<double>(head_dim));
    const double wave = 2 * std::numbers::pi / frequency;
    const double smooth = (context / wave - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
    const double factor = wave < context / r.high_freq_factor  ? 1
                          : wave > context / r.low_freq_factor ? r.factor
                                                               : 1 / ((1 - smooth) / r.factor + smooth);
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

std::vector<GgufTensor> gguf_tensors(const ModelSpec& spec, const GgufFamily& family) {
  std::vector<GgufTensor> out;
  std::map<std::string, std::size_t> places;
  for (const WeightName& w : weight_names(spec)) {
    if (xielu_key(w.role)) continue;
    const bool bias = w.bias || w.role == WeightRole::router_correction;
    std::string name = module_name(w, family, spec) + (bias ? ".bias" : ".weight");
    if (w.layer >= 0) name = fmt::format("blk.{}.{}", w.layer, name);
    auto [place, is_new] = places.try_emplace(name, out.size());
    if (is_new) {
      GgufTensor t;
      t.name = std::move(name);
      t.order = order_of(w, spec, family);
      if (is_norm(w.role) && !w.bias) t.offset = spec.norm.offset;
      out.push_back(std::move(t));
    }
    out[place->second].sources.push_back(w);
  }
  for (GgufTensor& t : out) t.shape = shape_of(t);
  if (spec.rope.scaling == RopeScaling::llama3)
    out.push_back(computed("rope_freqs.weight", llama3_factors(spec.rope, spec.head_dim)));
  if (spec.rope.scaling == RopeScaling::longrope) {
    auto floats = [](const std::vector<double>& x) { return std::vector<float>(x.begin(), x.end()); };
    out.push_back(computed("rope_factors_long.weight", floats(spec.rope.long_factor)));
    out.push_back(computed("rope_factors_short.weight", floats(spec.rope.short_factor)));
  }
  return out;
}

}  // namespace dml
