// A decoder-only model as data: one block with switches covers all families. config.json is read and written in
// checkpoint/model_config and checkpoint/families.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/packed_batch.h"
#include "kernels/gated_act.h"
#include "model/expert_naming.h"
#include "model/naming.h"

namespace dml {

/// The head: logits over the vocabulary, one number for a text (a reward model), or classes of a token (a process
/// reward model), named like transformers' model classes.
enum class HeadKind { causal_lm, sequence_classification, token_classification };
enum class NormKind { rms, layer };
enum class RopeScaling { none, linear, dynamic, llama3, yarn, longrope };

/// Rotary embedding; formulas of every scaling are in model/rope_tables.
struct RopeSpec {
  double theta = 10000;
  double partial = 1;  // share of head_dim that is rotated
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;                                        // longrope: used only for the default of attention_factor
  double low_freq_factor = 1, high_freq_factor = 4;         // llama3
  std::int64_t original_positions = 0;                      // llama3, yarn, longrope
  double beta_fast = 32, beta_slow = 1;                     // yarn
  double attention_factor = 0;                              // yarn, longrope; 0: computed from the factor
  bool truncate = true;                                     // yarn
  double mscale_all_dim = 0;                                // yarn: also scales attention scores (DeepSeek)
  std::vector<double> long_factor = {}, short_factor = {};  // longrope
  bool interleaved = false;  // rotate pairs (2j, 2j + 1) instead of (j, j + d/2) (Cohere, GLM)

  bool operator==(const RopeSpec&) const = default;
};

/// The mixtures of experts of a model; nn/moe.h has the formulas.
struct MoeSpec {
  std::int64_t experts = 0, chosen = 1;                        // experts = 0: every layer has an MLP
  std::int64_t ffn = 0;                                        // inner width of an expert
  std::int64_t shared_ffn = 0;                                 // inner width of the shared expert; 0: none
  bool shared_gate = false;                                    // the shared expert has a sigmoid gate
  std::vector<bool> dense = {};                                // per layer: has an MLP instead; empty: none
  bool sigmoid = false, normalize = true, correction = false;  // as in kernels/routing.h
  double scale = 1;
  std::int64_t groups = 1, chosen_groups = 1;
  bool bias = false;  // biases of router and experts
  double jitter = 0;
  double balance = 0, z = 0;  // factors of the router losses (nn/router_losses.h)
  const ExpertNaming* naming = &kQwenExperts;
  ExpertLayout layout = ExpertLayout::each;

  bool operator==(const MoeSpec&) const = default;
};

/// Multi-head latent attention (DeepSeek); nn/latent.h has the formulas.
struct LatentSpec {
  std::int64_t q_rank = 0, kv_rank = 0;  // kv_rank = 0: not used; q_rank = 0: queries have a single projection
  std::int64_t nope = 0, rope = 0, value = 0;
  bool interleaved = true;

  explicit operator bool() const { return kv_rank > 0; }
  bool operator==(const LatentSpec&) const = default;
};

/// The norms of the layers; Naming says which exist.
struct NormSpec {
  NormKind kind = NormKind::rms;
  double eps = 1e-6;
  float offset = 0;   // 1: the weight is stored as w − 1 (Gemma, Nemotron)
  bool bias = false;  // LayerNorm with bias

  bool operator==(const NormSpec&) const = default;
};

/// Norms on queries and keys.
struct QkNormSpec {
  enum class Over {
    none,
    head,             // each head, with one weight for all heads
    all_heads,        // the whole width, all heads together (OLMo 2)
    per_head,         // each head with its own weight in its own tensor (StableLM)
    per_head_stacked  // … in one tensor (heads, head_dim) (Cohere)
  };
  Over over = Over::none;
  NormKind kind = NormKind::rms;
  bool bias = false;        // Phi
  bool after_rope = false;  // HunYuan; otherwise before rope

  explicit operator bool() const { return over != Over::none; }
  /// Whether every head has its own weight.
  bool per_head() const { return over == Over::per_head || over == Over::per_head_stacked; }
  bool operator==(const QkNormSpec&) const = default;
};

/// Which linear layers have a bias.
struct BiasSpec {
  bool qkv = false, out = false, mlp = false, head = false;

  bool operator==(const BiasSpec&) const = default;
};

/// How attention and MLP are added to the residual stream.
struct ResidualSpec {
  bool parallel = false;     // both read the same input (StableLM, GPT-NeoX)
  bool shared_norm = false;  // both read the same norm
  double scale = 1;          // factor of their outputs (Granite)

  bool operator==(const ResidualSpec&) const = default;
};

/// Attention scores: q·k · scale, then the cap.
struct ScoreSpec {
  double scale = 0;       // 0: 1/sqrt(head_dim)
  bool by_layer = false;  // scores of layer i, from 0, are divided by i + 1 (GPT-2)
  double softcap = 0;
  double clip = 0;            // elements of q, k and v are clamped to ±clip, after the norms (OLMoE, MPT); 0: not
  bool sinks = false;         // every head has an attention sink (gpt-oss)
  double alibi_bias_max = 8;  // Positions::alibi: head i of n has the slope 2^(−alibi_bias_max · i / n)

  bool operator==(const ScoreSpec&) const = default;
};

/// How files store weights that the model has separately.
struct StorageSpec {
  enum class Qkv {
    each,
    stacked,
    by_head
  };  // three tensors; one with rows q|k|v (Phi 3); one with q|k|v of every key/value head (GPT-NeoX)
  Qkv qkv = Qkv::each;
  bool gate_up = false;  // one tensor with rows gate|up (Phi 3)
  bool in_out = false;   // linear weights are (in, out) (GPT-2)

  bool operator==(const StorageSpec&) const = default;
};

enum class Positions { rope, learned, alibi };  // alibi: kernels/attention.h has the formula

struct ModelSpec {
  std::string model_type = "llama";  // as in config.json
  const Naming* naming = &kLlamaNaming;
  std::int64_t vocab = 0, hidden = 0, ffn = 0, layers = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t max_positions = 2048;

  Positions positions = Positions::rope;
  RopeSpec rope;
  std::optional<RopeSpec> rope_local;   // of layers with a sliding window (Gemma 3)
  std::vector<bool> without_rope = {};  // per layer; empty: all layers have rope
  std::vector<std::int64_t> windows;    // per layer; 0: full attention

  NormSpec norm;
  QkNormSpec qk_norm;
  BiasSpec bias;
  ResidualSpec residual;
  ScoreSpec scores;
  bool gated = true;  // act(gate) · up, otherwise act(up)
  kernels::Activation activation = kernels::Activation::silu;
  MoeSpec moe;
  LatentSpec latent;
  StorageSpec stored;

  double embedding_scale = 1;  // Gemma: sqrt(hidden), rounded to the stored dtype
  bool scales_noise = false;   // Granite: NEFTune's noise is multiplied by embedding_scale too, as in transformers
  double logit_scale = 1;      // factor of the logits before their cap (Cohere, Granite)
  double final_softcap = 0;
  HeadKind head = HeadKind::causal_lm;
  std::int64_t labels = 0;  // outputs of a head other than causal_lm
  bool tied = false;        // the head is the embedding
  double init_range = 0.02;
  Token bos = -1, pad = -1;  // −1: none
  std::vector<Token> eos;

  bool operator==(const ModelSpec&) const = default;

  /// A copy of this spec with another head of `outputs` outputs.
  ModelSpec with_head(HeadKind kind, std::int64_t outputs) const;
  /// Whether a layer is a mixture of experts.
  bool sparse(std::int64_t layer) const {
    return moe.experts > 0 &&
           !(static_cast<std::size_t>(layer) < moe.dense.size() && moe.dense[static_cast<std::size_t>(layer)]);
  }
  /// The elements of a head that `kind`, one of its ropes, turns.
  std::int64_t rotary_dim(const RopeSpec& kind) const;
  /// The pairs that they are; an odd number is rounded up, as in transformers.
  std::int64_t rotary_pairs(const RopeSpec& kind) const { return (rotary_dim(kind) + 1) / 2; }
  /// The factor of q·k in a layer, counted from 0.
  float attention_scale(std::int64_t layer) const;
  /// The number of parameters of the model.
  std::int64_t parameters() const;
  /// Throws UserError, prefixed with `source`, with every contradiction (heads not divisible, odd head_dim …).
  void check(const std::string& source) const;
};

}  // namespace dml
