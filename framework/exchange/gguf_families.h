// Which architecture of llama.cpp computes a family, with the keys it asks for. What it would compute otherwise is refused.
#pragma once

#include <string_view>
#include <vector>

#include "exchange/gguf.h"
#include "model/spec.h"

namespace dml {

struct GgufFamily {
  enum Biases : unsigned { none = 0, qkv = 1, out = 2, mlp = 4, head = 8 };
  /// Which layers its code gives a sliding window.
  enum class Windows { none, alternating, five_of_six };

  std::string_view model_type, architecture;
  bool paired_rope = false;  // turns neighbouring elements of a head
  kernels::Activation activation = kernels::Activation::silu;
  unsigned biases = none;  // that its loader knows
  Windows windows = Windows::none;
  bool llama3_rope = false, longrope = false, whole_head_rope = false;
};

const std::vector<GgufFamily>& gguf_families();
/// UserError naming the families that there are.
const GgufFamily& gguf_family(std::string_view model_type, const std::string& source);

/// The keys "ARCHITECTURE.…". UserError with every setting of the model that the architecture has no key for; what only long
/// texts notice is a warning.
void write_model_keys(const ModelSpec& spec, const GgufFamily& family, const std::string& source, GgufMetadata& to);

}  // namespace dml
