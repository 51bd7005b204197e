// Which architecture of llama.cpp computes a family, with the keys it asks for. What it would compute otherwise is refused.
#pragma once

#include <string_view>
#include <vector>

#include "exchange/gguf.h"
#include "model/spec.h"

namespace dml {

struct GgufFamily {
  enum Biases : unsigned { none = 0, qkv = 1, out = 2, mlp = 4, head = 8 };
  /// What only one or two of them have.
  enum Extras : unsigned {
    scales = 1,         // keys for the scale of embedding, scores, residuals and logits (Granite)
    logit_scale = 2,    // a key for that of the logits alone (Cohere)
    llama3_rope = 4,    // factors of the frequencies, as a tensor
    longrope = 8,
    partial_rope = 16,  // heads of which a part turns
  };

  std::string_view model_type, architecture;
  bool paired_rope = false;  // turns neighbouring elements of a head where Hugging Face turns its halves
  kernels::Activation activation = kernels::Activation::silu;
  unsigned biases = none;  // that its loader knows
  std::int64_t full_window = 0;   // > 0: every full_window-th layer sees the whole text, the others a window …
  std::int64_t window_first = 0;  // … beginning with the first (1) or the last (0) of each group
  std::int64_t full_rope = 0;     // > 0: every full_rope-th layer has no rope
  unsigned extras = 0;
  const char* epsilon = "rms_norm_eps";  // its name in config.json
};

const std::vector<GgufFamily>& gguf_families();
/// UserError naming the families that there are.
const GgufFamily& gguf_family(std::string_view model_type, const std::string& source);

/// The keys "ARCHITECTURE.…". UserError with every setting of the model that the architecture has no key for; what only long
/// texts notice is a warning.
void write_model_keys(const ModelSpec& spec, const GgufFamily& family, const std::string& source, GgufMetadata& to);

}  // namespace dml
