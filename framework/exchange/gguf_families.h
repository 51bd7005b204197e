// Maps families to architectures of llama.cpp and to the features that these support. Files are written and read by
// this table; a model that llama.cpp would compute differently is rejected.
#pragma once

#include <span>
#include <string_view>

#include "exchange/gguf.h"
#include "model/spec.h"

namespace dml {

struct GgufFamily {
  enum Biases : unsigned { none = 0, qkv = 1, out = 2, mlp = 4, head = 8 };
  /// Features that only some families have.
  enum Extras : unsigned {
    scales = 1,       // keys for the scales of embedding, scores, residuals and logits (Granite)
    logit_scale = 2,  // a key for the scale of the logits only (Cohere)
    llama3_rope = 4,  // factors of the frequencies in a tensor
    longrope = 8,
    partial_rope = 16,  // rope on a part of each head
    experts = 32,       // experts in every layer; with `leading_dense`, not in the first ones
    normalized = 64,    // expert weights are divided by their sum
    leading_dense = 128,
    own_head = 256,       // the head may not be tied to the embedding
    late_ffn_norm = 512,  // the norm before the MLP is called post_attention_norm
    parallel_key = 1024,  // a key for the parallel residual
    parallel_only = 2048  // supports the parallel residual only
  };

  std::string_view model_type, architecture;
  bool paired_rope = false;  // rotates adjacent elements of a head where Hugging Face rotates its halves
  kernels::Activation activation = kernels::Activation::silu;
  unsigned biases = none;        // biases that its loader supports
  unsigned needs = none;         // biases that its loader requires
  std::int64_t full_window = 0;  // > 0: every full_window-th layer attends to the whole text, the others to a window …
  std::int64_t window_first = 0;   // … beginning with the first (1) or the last (0) of each group
  std::int64_t windowed_from = 0;  // … if the model has at least this many layers
  std::int64_t full_rope = 0;      // > 0: every full_rope-th layer has no rope
  unsigned extras = 0;

  bool has(Extras extra) const { return (extras & extra) != 0; }
  bool knows(Biases bias) const { return (biases & bias) != 0; }
  /// Whether llama.cpp uses a sliding window in a layer.
  bool slides(const ModelSpec& spec, std::int64_t layer) const;
  /// Whether llama.cpp applies rope in a layer.
  bool turns(const ModelSpec& spec, std::int64_t layer) const;
  /// The scale of attention scores for an architecture without a key for it.
  double score_scale(const ModelSpec& spec) const;
};

/// The table. If several families have one architecture, a file is read as the first unless its keys indicate another.
std::span<const GgufFamily> gguf_families();
/// The row of a family. UserError naming the supported families.
const GgufFamily& gguf_family(std::string_view model_type, const std::string& source);

/// Writes the keys "ARCHITECTURE.…". UserError listing every setting of the model that the architecture has no key for;
/// a setting that only affects long texts is a warning.
void write_model_keys(const ModelSpec& spec, const GgufFamily& family, const std::string& source, GgufMetadata& to);

}  // namespace dml
