// What llama.cpp calls the weights of a model: the tensors of a GGUF file, each with where its rows come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/weight_names.h"

namespace dml {

struct GgufTensor {
  std::string name;                  // "blk.0.attn_q.weight"
  std::vector<std::int64_t> shape;   // outermost first
  std::vector<WeightName> sources;   // whose rows follow each other in it; none: `values`
  std::int64_t heads = 0;            // > 0: the rows of each head are turned from two halves into pairs
  float offset = 0;                  // added to every value (Gemma's norms)
  std::vector<float> values;         // computed from the config (rotary factors)

  std::int64_t rows() const;
  /// Of a matrix; 1 for a vector.
  std::int64_t cols() const { return sources.empty() || sources[0].vector ? 1 : sources[0].cols; }
  bool matrix() const { return !sources.empty() && !sources[0].vector; }
};

/// In the order in which llama.cpp's converter writes them. `paired_rope`: the architecture turns neighbouring elements of a
/// head where Hugging Face turns its halves. UserError for a weight that has no name there.
std::vector<GgufTensor> gguf_tensors(const ModelSpec& spec, bool paired_rope);

/// The row of Hugging Face's matrix that stands at `row` of the turned one: head · d + 2 j + i comes from head · d + i · d/2 + j.
std::int64_t unpaired_row(std::int64_t row, std::int64_t head_dim);
/// The other way.
std::int64_t paired_row(std::int64_t row, std::int64_t head_dim);

}  // namespace dml
