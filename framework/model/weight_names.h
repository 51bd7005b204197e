// The place of every weight of a model in its Hugging Face files: one list, by which models are loaded and saved.
//
// A row is one weight: its role, its shape as used (out, in), the tensor that holds it, and its rows in that tensor.
// Fused tensors (Phi-3 qkv_proj, gate_up_proj; GPT-2 c_attn) hold several consecutive weights. GPT-2's Conv1D tensors
// are stored as (in, out), so their "rows" are columns of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/mxfp4_names.h"
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
  q_low,  // DeepSeek's low-rank projections and their norms; q reads q_low
  q_low_norm,
  kv_low,
  kv_low_norm,
  kv,
  sinks,
  router,
  router_correction,
  shared_gate,
  alpha_p,  // scalars of xIELU, and its constants beta and eps
  alpha_n,
  beta,
  eps,
  final_norm,
  head
};

/// Value of WeightName::expert for the shared expert.
constexpr std::int64_t kSharedExpert = -2;

/// The layout in a file of a matrix that the model has as (out, in): optionally transposed (every expert separately if
/// several are stacked), and with rows of gate and up interleaved while the model has all rows of gate first.
struct StoredOrder {
  std::int64_t experts = 1, rows = 0, cols = 1;  // of one expert
  bool transposed = false, interleaved = false;

  /// The index in the file of the model's element i.
  std::int64_t place(std::int64_t i) const {
    const std::int64_t size = rows * cols, e = i / size, r = i / cols % rows, c = i % cols, half = rows / 2;
    const std::int64_t row = !interleaved ? r : r < half ? 2 * r : 2 * (r - half) + 1;
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
  std::int64_t first_row = 0;       // first row in the (out, in) tensor, if fused
  std::int64_t tensor_rows = 0;     // rows of the whole tensor; equal to `rows` unless fused
  bool transposed = false;          // stored as (in, out)
  std::int64_t expert = -1;         // expert of a mixture; −1: none
  std::int64_t experts = 0;         // number of experts stacked in the tensor; 0: not stacked
  bool coded = false;               // stored as mxfp4: `tensor` names the codes, mxfp4_scales() the powers of two
  bool interleaved = false;         // the file interleaves rows of gate and up; first_row is in the model's order
  std::int64_t head = -1;           // head of q_norm and k_norm, if every head has its own; −1: all heads
  std::int64_t stacked = 0;         // number of vectors that the file stores as rows of one matrix
  bool constant = false;            // a single number without a dimension, never trained
  std::optional<float> start = {};  // initial value of a vector in a new model; unset: by its role
  std::string other_module = {};    // module name of adapters, if it differs from the tensor's name

  std::int64_t size() const { return rows * cols; }
  bool fused() const { return rows != tensor_rows; }
  /// Whether the file stores the elements in another order than the model.
  bool reordered() const { return transposed || (interleaved && !coded); }
  StoredOrder order() const {
    const std::int64_t count = experts > 0 ? experts : 1;
    return {count, tensor_rows / count, cols, transposed, interleaved};
  }
  std::string mxfp4_scales() const { return mxfp4_scales_of(tensor); }
  /// Shape of the whole tensor in the file.
  std::vector<std::int64_t> tensor_shape() const;
  /// The module name of adapters: the tensor's name without ".weight" or ".bias".
  std::string module() const;
};

/// All weights in the order of units: embedding, layers, final norm and head. A tied head has no row.
std::vector<WeightName> weight_names(const ModelSpec& spec);

/// Whether the weight is a head that the files of a language model lack; it is initialized randomly.
inline bool is_new_head(const WeightName& weight, const ModelSpec& spec) {
  return weight.role == WeightRole::head && spec.head != HeadKind::causal_lm;
}

/// The unit that a weight belongs to: 0 is the embedding, 1 … L are the layers, L + 1 is the head.
std::size_t unit_of(const WeightName& weight, const ModelSpec& spec);

/// Whether a weight is the matrix of a linear module inside a layer, which quantization applies to.
bool is_linear(const WeightName& weight);

/// A module that can have an adapter: a linear layer (fused ones as one) or an embedding.
struct AdaptableModule {
  std::string name;                 // "model.layers.0.self_attn.q_proj"
  std::int64_t rows = 0, cols = 0;  // (out, in) of the whole module; embeddings: (vocab, hidden)
  bool embedding = false;
  bool head = false;
  bool routed = false;  // a router or an expert, which is not a linear module in transformers 5
};
std::vector<AdaptableModule> adaptable_modules(const ModelSpec& spec);

}  // namespace dml
