// llama.cpp's names for the weights of a model: the tensors of a GGUF file, each with where its rows come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/gguf_families.h"
#include "model/weight_names.h"

namespace dml {

/// Which row of Hugging Face's matrix stands at a row of llama.cpp's.
struct RowOrder {
  enum class Kind {
    same,
    paired,  // within a head: head · d + 2 j + i comes from head · d + i · d/2 + j
    by_head  // all queries, keys and values; from those of each key/value head in turn
  };
  Kind kind = Kind::same;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;

  explicit operator bool() const { return kind != Kind::same; }
  std::int64_t source(std::int64_t row) const;
};

struct GgufTensor {
  std::string name;                 // "blk.0.attn_q.weight"
  std::vector<std::int64_t> shape;  // outermost first
  std::vector<WeightName> sources;  // whose rows follow each other in it; none: `values`
  RowOrder order;                   // of one source
  float offset = 0;                 // added to every value (Gemma's norms)
  std::vector<float> values;        // computed from the config (rotary factors)

  std::int64_t rows() const;
  /// Of a matrix; 1 for a vector.
  std::int64_t cols() const { return sources.empty() || sources[0].vector ? 1 : sources[0].cols; }
  bool matrix() const { return !sources.empty() && !sources[0].vector; }
};

/// In the order in which llama.cpp's converter writes them. UserError for a weight that has no name there.
std::vector<GgufTensor> gguf_tensors(const ModelSpec& spec, const GgufFamily& family);

/// The key that holds a scalar of an xIELU for every layer; null for other roles.
const char* xielu_key(WeightRole role);

/// How much slower each frequency turns than without scaling (Llama 3.1), as llama.cpp divides by it.
std::vector<float> llama3_factors(const RopeSpec& rope, std::int64_t head_dim);

}  // namespace dml
