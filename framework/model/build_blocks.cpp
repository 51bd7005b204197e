// Shapes, scales and switches of the blocks, from the spec.
#include <bit>
#include <cmath>

#include "model/build_state.h"

namespace dml {
namespace {

Norm norm_of(const ModelSpec& spec) {
  Norm n;
  n.layer_norm = spec.norm.kind == NormKind::layer;
  n.eps = static_cast<float>(spec.norm.eps);
  n.offset = spec.norm.offset;
  return n;
}

// The slopes of ALiBi: 2^(−most · i / n) for n heads if n is a power of two; otherwise those of the next larger power
// of two, every second one first (Press et al. 2022).
std::vector<float> alibi_slopes(std::int64_t heads, double most) {
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(heads)));
  std::vector<float> slopes;
  auto add = [&](std::int64_t first, std::int64_t step) {
    for (std::int64_t i = first; i <= power && std::ssize(slopes) < heads; i += step)
      slopes.push_back(static_cast<float>(std::exp2(-most * static_cast<double>(i) / static_cast<double>(power))));
  };
  if (power == heads) add(1, 1);
  else add(2, 2), add(1, 2);
  return slopes;
}

void set_up_latent(Latent& latent, const ModelSpec& spec) {
  const LatentSpec& l = spec.latent;
  constexpr float kEps = 1e-6f;  // not from the config
  latent.heads = spec.heads, latent.nope = l.nope, latent.rope = l.rope, latent.value = l.value;
  latent.interleaved = l.interleaved;
  latent.q_norm.eps = latent.kv_norm.eps = kEps;
}

void set_up_attention(Attention& a, const ModelSpec& spec, std::size_t layer) {
  const std::int64_t window = layer < spec.windows.size() ? spec.windows[layer] : 0;
  a.shape = {spec.heads,
             spec.kv_heads,
             spec.head_dim,
             spec.attention_scale(static_cast<std::int64_t>(layer)),
             static_cast<float>(spec.scores.softcap),
             window};
  a.q_norm = a.k_norm = norm_of(spec);
  a.q_norm.layer_norm = a.k_norm.layer_norm = spec.qk_norm.kind == NormKind::layer;
  a.norm_whole = spec.qk_norm.over == QkNormSpec::Over::all_heads;
  a.norm_after_rope = spec.qk_norm.after_rope;
  a.clip = static_cast<float>(spec.scores.clip);
  if (spec.qk_norm.per_head()) {
    a.q_norms.assign(static_cast<std::size_t>(spec.heads), a.q_norm);
    a.k_norms.assign(static_cast<std::size_t>(spec.kv_heads), a.k_norm);
  }
  a.use_rope = spec.positions == Positions::rope && !(layer < spec.without_rope.size() && spec.without_rope[layer]);
  a.local_rope = spec.rope_local && window > 0;
  if (spec.positions == Positions::alibi) a.slopes = alibi_slopes(spec.heads, spec.scores.alibi_bias_max);
  if (spec.latent) set_up_latent(a.latent, spec);
}

void set_up_experts(Moe& moe, const ModelSpec& spec, std::uint32_t& next_stream) {
  const MoeSpec& m = spec.moe;
  moe.router.rule = {m.experts, m.chosen,       m.sigmoid, m.normalize, static_cast<float>(m.scale),
                     m.groups,  m.chosen_groups};
  moe.experts.resize(static_cast<std::size_t>(m.experts));
  for (Mlp& expert : moe.experts) expert.activation = spec.activation;
  moe.shared.activation = spec.activation;
  moe.jitter = static_cast<float>(m.jitter);
  moe.stream = next_stream++;
}

}  // namespace

void set_up_blocks(BuildState& b) {
  const ModelSpec& spec = b.spec;
  b.model.embedding.scale = static_cast<float>(spec.embedding_scale);
  b.model.embedding.norm = b.model.head.norm = norm_of(spec);
  b.model.head.softcap = static_cast<float>(spec.final_softcap);
  b.model.head.scale = static_cast<float>(spec.logit_scale);
  for (std::size_t l = 0; l < b.model.layers.size(); ++l) {
    DecoderLayer& layer = b.model.layers[l];
    layer.parallel = spec.residual.parallel;
    layer.residual_scale = static_cast<float>(spec.residual.scale);
    layer.attention_norm = layer.attention_post_norm = layer.mlp_norm = layer.mlp_post_norm = norm_of(spec);
    layer.mlp.activation = spec.activation;
    if (spec.sparse(static_cast<std::int64_t>(l))) set_up_experts(layer.mlp.moe, spec, b.next_stream);
    set_up_attention(layer.attention, spec, l);
  }
}

}  // namespace dml
