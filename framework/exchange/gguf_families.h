// Which architecture of llama.cpp computes a family, and what of it: the table that files are written and read by. What
// llama.cpp would compute otherwise is refused.
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
    scales = 1,       // keys for the scale of embedding, scores, residuals and logits (Granite)
    logit_scale = 2,  // a key for that of the logits alone (Cohere)
    llama3_rope = 4,  // factors of the frequencies, as a tensor
    longrope = 8,
    partial_rope = 16,  // heads of which a part turns
    experts = 32,       // a mixture in every layer; in `leading_dense`, not in the first ones
    normalised = 64,    // … whose weights are divided by their sum
    leading_dense = 128,
    own_head = 256,       // a head of its own: none that is tied to the embedding
    late_ffn_norm = 512,  // the norm before the MLP is called post_attention_norm
    parallel_key = 1024,  // a key for the parallel residual
    parallel_only = 2048  // computes the parallel residual alone
  };

  std::string_view model_type, architecture;
  bool paired_rope = false;  // turns neighbouring elements of a head where Hugging Face turns its halves
  kernels::Activation activation = kernels::Activation::silu;
  unsigned biases = none;          // that its loader knows
  unsigned needs = none;           // … and without which it refuses a file
  std::int64_t full_window = 0;    // > 0: every full_window-th layer sees the whole text, the others a window …
  std::int64_t window_first = 0;   // … beginning with the first (1) or the last (0) of each group
  std::int64_t windowed_from = 0;  // … if the model has at least this many layers
  std::int64_t full_rope = 0;      // > 0: every full_rope-th layer has no rope
  unsigned extras = 0;

  bool has(Extras extra) const { return (extras & extra) != 0; }
  bool knows(Biases bias) const { return (biases & bias) != 0; }
  /// Whether llama.cpp gives a layer of a model a window.
  bool slides(const ModelSpec& spec, std::int64_t layer) const;
  /// Whether it turns queries and keys of a layer.
  bool turns(const ModelSpec& spec, std::int64_t layer) const;
  /// The scale of scores, where no key holds it.
  double score_scale(const ModelSpec& spec) const;
};

/// Where two families have one architecture, the first is what a file is read as unless its keys say otherwise.
std::span<const GgufFamily> gguf_families();
/// UserError naming the families that there are.
const GgufFamily& gguf_family(std::string_view model_type, const std::string& source);

/// The keys "ARCHITECTURE.…". UserError with every setting of the model that the architecture has no key for; what only
/// long texts notice is a warning.
void write_model_keys(const ModelSpec& spec, const GgufFamily& family, const std::string& source, GgufMetadata& to);

}  // namespace dml
