// Where every weight of a model lies in its Hugging Face files: one list, from which models are loaded and saved.
//
// A row is one weight of the block: its role, its shape as the block uses it (out, in), the tensor that holds it, and
// which rows of it. Fused tensors (Phi-3 qkv_proj, gate_up_proj; GPT-2 c_attn) hold several weights one after the
// other; GPT-2's Conv1D tensors are stored (in, out), so its "rows" are columns of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace dml {

enum class WeightRole {
  embed,
  embed_norm,
  positions,
  input_norm,
  q,
  k,
  v,
  qkv,  // interleaved by key/value head
  o,
  q_norm,
  k_norm,
  post_attention_norm,
  pre_ffn_norm,
  post_ffn_norm,
  gate,
  up,
  down,
  q_low,  // DeepSeek's narrow projections and their norms; q is what reads the first
  q_low_norm,
  kv_low,
  kv_low_norm,
  kv,
  sinks,
  router,
  router_correction,
  shared_gate,
  alpha_p,  // of an xIELU, and its constants beta and eps
  alpha_n,
  beta,
  eps,
  final_norm,
  head
};

/// Of WeightName::expert: the one that reads every token.
constexpr std::int64_t kSharedExpert = -2;

/// The layout of a matrix in a file where this model has rows of (out, in): a matrix stored as (in, out), for every
/// expert by itself where several are stacked, and rows of gate and up in turn where this model has all of gate first.
struct StoredOrder {
  std::int64_t experts = 1, rows = 0, cols = 1;  // of one expert
  bool transposed = false, alternate = false;

  /// The file's place of this model's element i.
  std::int64_t place(std::int64_t i) const {
    const std::int64_t size = rows * cols, e = i / size, r = i / cols % rows, c = i % cols, half = rows / 2;
    const std::int64_t row = !alternate ? r : r < half ? 2 * r : 2 * (r - half) + 1;
    return e * size + (transposed ? c * rows + row : row * cols + c);
  }
};

struct WeightName {
  WeightRole role;
  bool bias = false;
  std::int64_t layer = -1;          // −1: not in a layer
  std::string tensor;               // name in the file, with ".weight" or ".bias"
  std::int64_t rows = 0, cols = 1;  // (out, in); vectors have one column
  bool vector = false;              // stored with one dimension
  std::int64_t first_row = 0;       // of the (out, in) tensor, when fused
  std::int64_t tensor_rows = 0;     // rows of the whole tensor; = rows unless fused
  bool transposed = false;          // stored as (in, out)
  std::int64_t expert = -1;         // of a mixture; −1: of none
  std::int64_t experts = 0;         // whose matrices are stacked in the tensor; 0: it has one
  bool coded = false;               // stored as mxfp4: `tensor` names the codes, mxfp4_scales() the powers of two
  bool alternate = false;           // the file has rows of gate and up interleaved; first_row is this model's
  std::int64_t head = -1;           // of q_norm and k_norm where every head has its own; −1: of all heads
  std::int64_t stacked = 0;         // number of vectors that the file holds as the rows of one matrix
  bool constant = false;            // a single number without a dimension, never trained
  std::optional<float> start = {};  // what a vector begins with in a new model; by its role, if not given
  std::string other_module = {};    // of adapters, where it is not the tensor's name

  std::int64_t size() const { return rows * cols; }
  bool fused() const { return rows != tensor_rows; }
  /// Whether the file's elements stand in another order than this model's.
  bool reordered() const { return transposed || (alternate && !coded); }
  StoredOrder order() const {
    const std::int64_t count = experts > 0 ? experts : 1;
    return {count, tensor_rows / count, cols, transposed, alternate};
  }
  std::string mxfp4_scales() const { return tensor.substr(0, tensor.rfind("_blocks")) + "_scales"; }
  /// Shape of the whole tensor in the file.
  std::vector<std::int64_t> tensor_shape() const;
  /// The module as adapters name it: the tensor's name without ".weight" or ".bias".
  std::string module() const;
};

/// All weights, unit after unit: embedding, layers, final norm and head. A tied head has no row.
std::vector<WeightName> weight_names(const ModelSpec& spec);

/// The unit of parameters that a weight belongs to: 0 is the embedding, then come the layers, then the head.
std::size_t unit_of(const WeightName& weight, const ModelSpec& spec);

/// The matrix of a linear module inside a layer: what quantisation stores in codes.
bool is_linear(const WeightName& weight);

/// Modules that an adapter can sit on (linear layers, fused ones once, and the embeddings), in the order of the model.
struct AdaptableModule {
  std::string name;                 // "model.layers.0.self_attn.q_proj"
  std::int64_t rows = 0, cols = 0;  // (out, in) of the whole, fused module; embeddings: (vocab, hidden)
  bool embedding = false;
  bool head = false;
  bool routed = false;  // a router or one of its experts: no linear module in transformers 5
};
std::vector<AdaptableModule> adaptable_modules(const ModelSpec& spec);

}  // namespace dml
