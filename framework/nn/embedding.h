// Token embedding, scaled in some families, with learned positions in others.
#pragma once

#include "kernels/weight.h"
#include "nn/parameter.h"
#include "nn/pass.h"

namespace dml {

struct Embedding {
  kernels::Weight frozen, frozen_positions;
  ParameterRef table, positions;
  float scale = 1;

  bool trains() const { return table || positions; }
  kernels::Weight value() const { return table ? kernels::weight_of(table.value()) : frozen; }
  /// y (T, D).
  void forward(const PackedBatch& batch, Mat y) const;
  /// Adds to the gradients.
  void backward(const PackedBatch& batch, ConstMat dy) const;
};

}  // namespace dml
