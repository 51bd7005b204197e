#include "nn/embedding.h"

#include "kernels/embed_columns.h"
#include "kernels/embedding.h"
#include "kernels/lora.h"

namespace dml {

void Embedding::forward(const PackedBatch& batch, Mat y, Arena& scratch) const {
  kernels::embed(batch.tokens, value(), scale, y);
  if (lora) {
    Arena::Scope scope(scratch);
    Mat down = scratch.matrix(y.rows, lora->a.rows);
    kernels::embed_columns(batch.tokens, lora->a.value(), down);
    kernels::lora_up(down, lora->b.value(), scale * lora->scale, y);
  }
  if (positions) kernels::embed(batch.positions, kernels::weight_of(positions.value()), 1, y, Write::add);
  else if (frozen_positions) kernels::embed(batch.positions, frozen_positions, 1, y, Write::add);
}

void Embedding::backward(const PackedBatch& batch, ConstMat dy, Arena& scratch) const {
  if (Mat d = table ? table.grad() : Mat{}; !d.empty()) kernels::embed_backward(batch.tokens, dy, scale, d);
  if (lora) {
    Arena::Scope scope(scratch);
    Mat down = scratch.matrix(dy.rows, lora->a.rows), ddown = scratch.matrix(dy.rows, lora->a.rows);
    kernels::embed_columns(batch.tokens, lora->a.value(), down);
    kernels::lora_up_backward(dy, down, lora->b.value(), scale * lora->scale, ddown, lora->b.grad(), scratch);
    if (Mat d = lora->a.grad(); !d.empty()) kernels::embed_columns_backward(batch.tokens, ddown, d);
  }
  if (Mat d = positions ? positions.grad() : Mat{}; !d.empty()) kernels::embed_backward(batch.positions, dy, 1, d);
}

}  // namespace dml
