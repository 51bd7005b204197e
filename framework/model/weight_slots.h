// Where a named weight sits inside a CausalLm, and what a tensor's values are now: trained ones, and with the adapter
// merged if asked.
#pragma once

#include <vector>

#include "model/causal_lm.h"
#include "model/weight_names.h"

namespace dml {

/// The linear layer or norm that a weight belongs to; null when it belongs to neither.
Linear* linear_at(CausalLm& model, const WeightName& weight);
Norm* norm_at(CausalLm& model, const WeightName& weight);
/// The place of a vector beside them: a scalar of an activation, or the head's bias; both null for others.
struct VectorPlace {
  ParameterRef* trained = nullptr;
  const float** frozen = nullptr;
};
VectorPlace vector_at(CausalLm& model, const WeightName& weight);
/// Where a matrix has its adapter, and its frozen values: of linear layers, embedding and head; null for others.
std::optional<LoraAdapter>* adapter_at(CausalLm& model, const WeightName& weight);
kernels::Weight* frozen_at(CausalLm& model, const WeightName& weight);

/// Rows of a matrix with its adapter, W + s·BA, with DoRA scaled by m / ‖W + s·BA‖; an embedding's rows are tokens,
/// W + s·AᵀBᵀ. Without an adapter W itself. All that is given outlives this.
class MergedRows {
 public:
  MergedRows(const kernels::Weight& weight, const LoraAdapter* lora, bool embedding);
  /// Rows [first, first + count) as float32, on the calling thread.
  void read(std::int64_t first, std::int64_t count, float* out) const;

 private:
  const kernels::Weight& weight_;
  const LoraAdapter* lora_;
  bool embedding_;
  std::vector<float> norms_;  // DoRA's
};

/// All values of the tensor `rows` describe (the weights of one tensor, as weight_names() lists them), in the file's
/// orientation. With `merge`, W + s·BA (DoRA: scaled by m / ‖W + s·BA‖) for layers with an adapter, and the trained
/// rows of embedding and head in their places.
std::vector<float> tensor_values(CausalLm& model, std::span<const WeightName> rows, bool merge);

}  // namespace dml
