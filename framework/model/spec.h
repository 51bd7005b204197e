// A decoder-only model as data: one block with switches covers all families. Nothing here reads files; the two
// dialects of config.json are understood in checkpoint/model_config.
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

/// The kind of head: logits over the vocabulary, one number for a text (a reward model), or classes
/// of a token (a process reward model). The names are those of transformers' models.
enum class HeadKind { causal_lm, sequence_classification, token_classification };
enum class NormKind { rms, layer };
enum class RopeScaling { none, linear, dynamic, llama3, yarn, longrope };

/// Rotary embedding; formulas of every scaling are in model/rope_tables.
struct RopeSpec {
  double theta = 10000;
  double partial = 1;  // share of head_dim that turns
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;                                        // longrope: only for the default of attention_factor
  double low_freq_factor = 1, high_freq_factor = 4;         // llama3
  std::int64_t original_positions = 0;                      // llama3, yarn, longrope
  double beta_fast = 32, beta_slow = 1;                     // yarn
  double attention_factor = 0;                              // yarn, longrope; 0: from the factor
  bool truncate = true;                                     // yarn
  double mscale_all_dim = 0;                                // yarn: DeepSeek scales scores by it, too
  std::vector<double> long_factor = {}, short_factor = {};  // longrope
  bool interleaved = false;  // Cohere, GLM: pairs (2j, 2j + 1) turn instead of (j, j + d/2)

  bool operator==(const RopeSpec&) const = default;
};

/// The mixtures of experts of a model; nn/moe.h has the formulas.
struct MoeSpec {
  std::int64_t experts = 0, chosen = 1;                        // 0 experts: every layer has an MLP
  std::int64_t ffn = 0;                                        // of one expert
  std::int64_t shared_ffn = 0;                                 // of the expert that reads every token; 0: none
  bool shared_gate = false;                                    // … and its sigmoid gate
  std::vector<bool> dense = {};                                // per layer: an MLP all the same; empty: none
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

/// The norms between the blocks; Naming says which there are.
struct NormSpec {
  NormKind kind = NormKind::rms;
  double eps = 1e-6;
  float offset = 0;   // Gemma, Nemotron: the weight is stored as w − 1
  bool bias = false;  // LayerNorm with bias

  bool operator==(const NormSpec&) const = default;
};

/// Norms on queries and keys.
struct QkNormSpec {
  enum class Over {
    none,
    head,        // every head, with one weight for all
    all_heads,   // the whole width (OLMo 2)
    own,         // every head, each with a weight of its own in a tensor of its own (StableLM)
    own_stacked  // … in one tensor (heads, head_dim) (Cohere)
  };
  Over over = Over::none;
  NormKind kind = NormKind::rms;
  bool bias = false;        // Phi
  bool after_rope = false;  // HunYuan; the others' stand before it

  explicit operator bool() const { return over != Over::none; }
  /// Whether every head has a weight of its own.
  bool own() const { return over == Over::own || over == Over::own_stacked; }
  bool operator==(const QkNormSpec&) const = default;
};

/// Which linear layers have a bias.
struct BiasSpec {
  bool qkv = false, out = false, mlp = false, head = false;

  bool operator==(const BiasSpec&) const = default;
};

/// How attention and MLP are added to what they read.
struct ResidualSpec {
  bool parallel = false;     // StableLM, GPT-NeoX: both read the same input
  bool shared_norm = false;  // … and the same norm
  double scale = 1;          // Granite: of what they add

  bool operator==(const ResidualSpec&) const = default;
};

/// Attention scores: q·k · scale, then the cap.
struct ScoreSpec {
  double scale = 0;       // 0: 1/sqrt(head_dim)
  bool by_layer = false;  // GPT-2: those of layer i, counted from 0, are divided by i + 1
  double softcap = 0;
  double clip = 0;        // OLMoE, MPT: elements of q, k and v are limited to ±clip, behind the norms; 0: not
  bool sinks = false;     // gpt-oss: every head has a score that no key gave
  double most_alibi = 8;  // Positions::alibi: head i of n has the slope 2^(−most_alibi · i / n)

  bool operator==(const ScoreSpec&) const = default;
};

/// How files hold weights that the model has one by one.
struct StorageSpec {
  enum class Qkv {
    each,
    stacked,
    by_head
  };  // three tensors; rows q|k|v of one (Phi 3); of each key/value head in turn (GPT-NeoX)
  Qkv qkv = Qkv::each;
  bool gate_up = false;  // rows gate|up of one tensor (Phi 3)
  bool in_out = false;   // linear weights as (in, out) (GPT-2)

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
  std::optional<RopeSpec> rope_local;   // of sliding layers (Gemma 3)
  std::vector<bool> without_rope = {};  // per layer; empty: all turn
  std::vector<std::int64_t> windows;    // per layer, 0 = full attention

  NormSpec norm;
  QkNormSpec qk_norm;
  BiasSpec bias;
  ResidualSpec residual;
  ScoreSpec scores;
  bool gated = true;  // act(gate) · up, else act(up)
  kernels::Activation activation = kernels::Activation::silu;
  MoeSpec moe;
  LatentSpec latent;
  StorageSpec stored;

  double embedding_scale = 1;  // Gemma: sqrt(hidden), rounded to the storage type
  double logit_scale = 1;      // Cohere, Granite: of the logits, before their cap
  double final_softcap = 0;
  HeadKind head = HeadKind::causal_lm;
  std::int64_t labels = 0;  // outputs of a head that is none of a language model
  bool tied = false;        // head = embedding
  double init_range = 0.02;
  Token bos = -1, pad = -1;  // −1: none
  std::vector<Token> eos;

  bool operator==(const ModelSpec&) const = default;

  /// A copy of this spec whose head has `outputs` outputs in place of the vocabulary.
  ModelSpec with_head(HeadKind kind, std::int64_t outputs) const;
  /// Whether a layer has experts instead of an MLP.
  bool sparse(std::int64_t layer) const {
    return moe.experts > 0 &&
           !(static_cast<std::size_t>(layer) < moe.dense.size() && moe.dense[static_cast<std::size_t>(layer)]);
  }
  /// The factor on q·k of a layer, counted from 0.
  float attention_scale(std::int64_t layer) const;
  /// Parameters of the whole model.
  std::int64_t parameters() const;
  /// UserError with every contradiction (heads not divisible, odd head_dim …), `source` in front.
  void check(const std::string& source) const;
};

}  // namespace dml
