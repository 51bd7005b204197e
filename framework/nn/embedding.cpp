#include "nn/embedding.h"

#include "kernels/embedding.h"

namespace dml {

void Embedding::forward(const PackedBatch& batch, Mat y) const {
  kernels::embed(batch.tokens, value(), scale, y);
  if (positions)
    kernels::embed(batch.positions, kernels::weight_of(positions.value()), 1, y, Write::add);
  else if (frozen_positions)
    kernels::embed(batch.positions, frozen_positions, 1, y, Write::add);
}

void Embedding::backward(const PackedBatch& batch, ConstMat dy) const {
  if (Mat d = table ? table.grad() : Mat{}; !d.empty()) kernels::embed_backward(batch.tokens, dy, scale, d);
  if (Mat d = positions ? positions.grad() : Mat{}; !d.empty()) kernels::embed_backward(batch.positions, dy, 1, d);
}

}  // namespace dml
