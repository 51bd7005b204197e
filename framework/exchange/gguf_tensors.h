// The tensors of a GGUF file under llama.cpp's names, each with the weights that its rows come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/gguf_families.h"
#include "model/weight_names.h"

namespace dml {

/// Maps a row of llama.cpp's matrix to the row of Hugging Face's.
struct RowOrder {
  enum class Kind {
    same,
    paired,  // within a head: head · d + 2 j + i comes from head · d + i · d/2 + j
    by_head  // all queries, all keys, all values; source: interleaved by key/value head
  };
  Kind kind = Kind::same;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;

  explicit operator bool() const { return kind != Kind::same; }
  std::int64_t source(std::int64_t row) const;
};

struct GgufTensor {
  std::string name;                 // "blk.0.attn_q.weight"
  std::vector<std::int64_t> shape;  // outermost first
  std::vector<WeightName> sources;  // weights whose rows are concatenated; if empty, `values` is used
  RowOrder order;                   // row order, if there is one source
  float offset = 0;                 // added to every value (Gemma's norms)
  std::vector<float> values;        // computed from the config (rotary factors)

  std::int64_t rows() const;
  /// Columns of a matrix; 1 for a vector.
  std::int64_t cols() const { return sources.empty() || sources[0].vector ? 1 : sources[0].cols; }
  bool matrix() const { return !sources.empty() && !sources[0].vector; }
};

/// The tensors in the order of llama.cpp's converter. UserError for a weight that has no name there.
std::vector<GgufTensor> gguf_tensors(const ModelSpec& spec, const GgufFamily& family);

/// The key of a scalar of xIELU, which has one value per layer; null for other roles.
const char* xielu_key(WeightRole role);

/// The factor by which llama.cpp divides each rope frequency (Llama 3.1 scaling).
std::vector<float> llama3_factors(const RopeSpec& rope, std::int64_t head_dim);

}  // namespace dml
