// Finds a named weight inside a CausalLm and reads the current values of tensors, optionally with the adapter merged.
#pragma once

#include <vector>

#include "model/causal_lm.h"
#include "model/weight_names.h"

namespace dml {

/// The linear layer, or the norm, that a weight belongs to; null if there is none.
Linear* linear_at(CausalLm& model, const WeightName& weight);
Norm* norm_at(CausalLm& model, const WeightName& weight);
/// Another vector: a scalar of an activation, or the head's bias. Both pointers are null for other weights.
struct VectorPlace {
  ParameterRef* trained = nullptr;
  const float** frozen = nullptr;
};
VectorPlace vector_at(CausalLm& model, const WeightName& weight);
/// The adapter and the frozen values of a matrix of a linear layer, the embedding or the head; null for other weights.
std::optional<LoraAdapter>* adapter_at(CausalLm& model, const WeightName& weight);
kernels::Weight* frozen_at(CausalLm& model, const WeightName& weight);

/// Rows of a matrix with its adapter merged: W + s·BA, with DoRA scaled by m / ‖W + s·BA‖; for an embedding, whose rows
/// are tokens, W + s·AᵀBᵀ; without an adapter W. The arguments must outlive the object.
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

/// All values of a tensor in the file's layout. `rows`: the weights of this tensor, as listed by weight_names(). With
/// `merge`, the adapters are merged (MergedRows) and trained rows of embedding and head replace those of the base.
std::vector<float> tensor_values(CausalLm& model, std::span<const WeightName> rows, bool merge);

}  // namespace dml
