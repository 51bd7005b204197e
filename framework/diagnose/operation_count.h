// Number of floating-point operations that a step requires, the basis of speed figures. It counts matrix products only:
//
//   forward      every linear layer, 2 · rows · in · out; queries against the keys they may see, 4 · pairs · width
//   backward     the gradient of the input unless nothing below is trained; the gradient of a weight only where it is
//                trained; attention 8 · pairs · width (dV, dP, dQ, dK)
//   adapters     their own products, 2 · rows · (in + out) · R forward and twice that backward
//   loss head    rows that feed a label only, and so for whatever in the last layer serves such rows alone: queries,
//                attention output, MLP
//
// Recomputation to save memory is not counted, nor is padding.
#pragma once

#include "core/packed_batch.h"
#include "model/causal_lm.h"

namespace dml {

struct OperationCount {
  double forward = 0, backward = 0;
  double total() const { return forward + backward; }
  OperationCount& operator+=(const OperationCount& other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
};

OperationCount count_operations(const CausalLm& model, const PackedBatch& batch);

}  // namespace dml
