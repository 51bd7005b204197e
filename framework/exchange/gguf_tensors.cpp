#include "exchange/gguf_tensors.h"

#include <cmath>
#include <map>
#include <numbers>

#include "core/error.h"

namespace dml {
namespace {

// Without "blk.N." and ".weight" or ".bias".
std::string module_name(const WeightName& w) {
  const bool fused = w.fused();
  switch (w.role) {
    case WeightRole::embed:
      return "token_embd";
    case WeightRole::positions:
      return "position_embd";
    case WeightRole::input_norm:
      return "attn_norm";
    case WeightRole::q:
      return fused ? "attn_qkv" : "attn_q";
    case WeightRole::k:
      return fused ? "attn_qkv" : "attn_k";
    case WeightRole::v:
      return fused ? "attn_qkv" : "attn_v";
    case WeightRole::o:
      return "attn_output";
    case WeightRole::q_norm:
      return "attn_q_norm";
    case WeightRole::k_norm:
      return "attn_k_norm";
    case WeightRole::post_attention_norm:
      return "post_attention_norm";
    case WeightRole::pre_ffn_norm:
      return "ffn_norm";
    case WeightRole::post_ffn_norm:
      return "post_ffw_norm";
    case WeightRole::gate:
      return fused ? "ffn_up" : "ffn_gate";
    case WeightRole::up:
      return "ffn_up";
    case WeightRole::down:
      return "ffn_down";
    case WeightRole::final_norm:
      return "output_norm";
    case WeightRole::head:
      return "output";
    default:
      break;
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
  std::int64_t rows = 0;
  for (const WeightName& w : t.sources) rows += w.rows;
  return first.vector ? std::vector{rows} : std::vector{rows, first.cols};
}

// How much slower each frequency turns than without scaling (Llama 3.1), as llama.cpp divides by it.
std::vector<float> llama3_factors(const ModelSpec& spec) {
  const RopeSpec& r = spec.rope;
  const auto context = static_cast<double>(r.original_positions);
  std::vector<float> factors;
  for (std::int64_t i = 0; i < spec.head_dim; i += 2) {
    const double frequency = std::pow(r.theta, -static_cast<double>(i) / static_cast<double>(spec.head_dim));
    const double wave = 2 * std::numbers::pi / frequency;
    const double smooth = (context / wave - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
    const double factor = wave < context / r.high_freq_factor  ? 1
                          : wave > context / r.low_freq_factor ? r.factor
                                                               : 1 / ((1 - smooth) / r.factor + smooth);
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
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

std::int64_t unpaired_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim;
  return row - in_head + in_head % 2 * (head_dim / 2) + in_head / 2;
}

std::int64_t paired_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + in_head % half * 2 + in_head / half;
}

std::vector<GgufTensor> gguf_tensors(const ModelSpec& spec, bool paired_rope) {
  std::vector<GgufTensor> out;
  std::map<std::string, std::size_t> places;
  for (const WeightName& w : weight_names(spec)) {
    std::string name = module_name(w) + (w.bias ? ".bias" : ".weight");
    if (w.layer >= 0) name = fmt::format("blk.{}.{}", w.layer, name);
    auto [place, is_new] = places.try_emplace(name, out.size());
    if (is_new) {
      GgufTensor t;
      t.name = std::move(name);
      if (paired_rope && (w.role == WeightRole::q || w.role == WeightRole::k))
        t.heads = w.role == WeightRole::q ? spec.heads : spec.kv_heads;
      if (is_norm(w.role) && !w.bias) t.offset = spec.norm.offset;
      out.push_back(std::move(t));
    }
    out[place->second].sources.push_back(w);
  }
  for (GgufTensor& t : out) t.shape = shape_of(t);
  if (spec.rope.scaling == RopeScaling::llama3) out.push_back(computed("rope_freqs.weight", llama3_factors(spec)));
  if (spec.rope.scaling == RopeScaling::longrope) {
    auto floats = [](const std::vector<double>& x) { return std::vector<float>(x.begin(), x.end()); };
    out.push_back(computed("rope_factors_long.weight", floats(spec.rope.long_factor)));
    out.push_back(computed("rope_factors_short.weight", floats(spec.rope.short_factor)));
  }
  return out;
}

}  // namespace dml
