// What a decoder-only model is, as data: one block with switches covers the families. Nothing here reads files; the two
// dialects of config.json are understood in checkpoint/model_config.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/packed_batch.h"
#include "kernels/gated_act.h"
#include "model/expert_naming.h"
#include "model/naming.h"

namespace dml {

enum class NormKind { rms, layer };
enum class RopeScaling { none, linear, dynamic, llama3, yarn, longrope };

/// Rotary embedding; formulas of every scaling are in model/rope_tables.
struct RopeSpec {
  double theta = 10000;
  double partial = 1;  // share of head_dim that turns
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;                                 // longrope: only for the default of attention_factor
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  std::int64_t original_positions = 0;               // llama3, yarn, longrope
  double beta_fast = 32, beta_slow = 1;              // yarn
  double attention_factor = 0;                       // yarn, longrope; 0: from the factor
  bool truncate = true;                              // yarn
  double mscale_all_dim = 0;                         // yarn: DeepSeek scales scores by it, too
  std::vector<double> long_factor = {}, short_factor = {};  // longrope

  bool operator==(const RopeSpec&) const = default;
};

/// The mixtures of experts of a model; nn/moe.h has the formulas.
struct MoeSpec {
  std::int64_t experts = 0, chosen = 1;  // 0 experts: every layer has an MLP
  std::int64_t ffn = 0;                  // of one expert
  std::int64_t shared_ffn = 0;           // of the expert that reads every token; 0: none
  bool shared_gate = false;              // … and its sigmoid gate
  std::vector<bool> dense = {};          // per layer: an MLP all the same; empty: none
  bool sigmoid = false, normalise = true, correction = false;  // as in kernels/routing.h
  double scale = 1;
  std::int64_t groups = 1, chosen_groups = 1;
  bool bias = false;  // of router and experts
  double jitter = 0;
  double balance = 0, z = 0;  // factors of the losses of nn/router_losses.h
  const ExpertNaming* naming = &kQwenExperts;
  ExpertLayout layout = ExpertLayout::each;

  bool operator==(const MoeSpec&) const = default;
};

/// DeepSeek's narrow projections of queries, keys and values; nn/latent.h has the formulas.
struct LatentSpec {
  std::int64_t q_rank = 0, kv_rank = 0;  // kv_rank 0: there are none; q_rank 0: queries are projected at once
  std::int64_t nope = 0, rope = 0, value = 0;
  bool interleaved = true;

  explicit operator bool() const { return kv_rank > 0; }
  bool operator==(const LatentSpec&) const = default;
};

struct ModelSpec {
  std::string model_type = "llama";  // as in config.json
  const Naming* naming = &kLlamaNaming;
  std::int64_t vocab = 0, hidden = 0, ffn = 0, layers = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t max_positions = 2048;

  NormKind norm = NormKind::rms;
  double norm_eps = 1e-6;
  float norm_offset = 0;           // Gemma, Nemotron: the weight is stored as w − 1
  bool norm_bias = false;          // LayerNorm with bias
  bool norm_after = false;         // OLMo 2: norms stand behind attention and MLP, none in front
  bool sandwich_norms = false;     // Gemma 2/3: norms in front of and behind both
  bool parallel_residual = false;  // StableLM, GPT-NeoX: attention and MLP read the same input
  bool shared_input_norm = false;  // … and the same norm
  double residual_scale = 1;       // Granite: of what attention and MLP add

  bool qkv_bias = false, out_bias = false, mlp_bias = false, head_bias = false;
  bool qk_norm = false;             // a norm on every head's q and k
  bool qk_norm_whole = false;       // … on the whole width (OLMo 2)
  bool qk_head_norms = false;       // … of every head a weight of its own (StableLM), in tensors of their own
  bool qk_norms_stacked = false;    // … or in one tensor (heads, head_dim) (Cohere)
  bool qk_norm_bias = false;        // … with a bias (Phi)
  NormKind qk_norm_kind = NormKind::rms;
  bool qk_norm_behind_rope = false;  // HunYuan; the others' stand in front of it
  bool gated = true;                 // act(gate) · up, else act(up)
  kernels::Activation activation = kernels::Activation::silu;

  bool use_rope = true;
  bool learned_positions = false;                 // GPT-2
  bool conv1d_layout = false;                     // GPT-2: linear weights are stored (in, out)
  bool fused_qkv = false, fused_gate_up = false;  // Phi-3: rows q|k|v and gate|up of one tensor
  bool fused_by_head = false;                     // … GPT-NeoX: q|k|v of each key/value head in turn
  RopeSpec rope, rope_local;                      // rope_local: sliding layers of Gemma 3
  bool has_local_rope = false;
  bool rope_interleaved = false;       // Cohere, GLM: pairs (2j, 2j + 1) turn instead of (j, j + d/2)
  std::vector<bool> without_rope = {};  // per layer; empty: all turn

  double query_scale = 0;            // scores are q·k · query_scale; 0: 1/sqrt(head_dim)
  bool inverse_layer_scale = false;  // GPT-2: those of layer i, counted from 0, are divided by i + 1
  double attention_softcap = 0, final_softcap = 0;
  double embedding_scale = 1;         // Gemma: sqrt(hidden), rounded to the storage type
  double logit_scale = 1;             // Cohere, Granite: of the logits, in front of the soft-cap
  std::vector<std::int64_t> windows;  // per layer, 0 = full attention

  MoeSpec moe;
  LatentSpec latent;
  bool sinks = false;  // gpt-oss: every head has a score that no key gave

  bool tied = false;  // head = embedding
  double init_range = 0.02;
  Token bos = -1, pad = -1;  // −1: none
  std::vector<Token> eos;

  bool operator==(const ModelSpec&) const = default;

  /// Whether a layer has experts instead of an MLP.
  bool sparse(std::int64_t layer) const {
    return moe.experts > 0 && !(static_cast<std::size_t>(layer) < moe.dense.size() && moe.dense[static_cast<std::size_t>(layer)]);
  }
  /// The factor on q·k of a layer, counted from 0.
  float attention_scale(std::int64_t layer) const;
  /// Parameters of the whole model.
  std::int64_t parameters() const;
  /// UserError with every contradiction (heads not divisible, odd head_dim …), `source` in front.
  void check(const std::string& source) const;
};

}  // namespace dml
