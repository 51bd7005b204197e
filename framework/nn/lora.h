// A low-rank adapter, s · (x̃ Aᵀ) Bᵀ, x̃ being x with dropout in training, and what all layers with one share.
#pragma once

#include "core/matrix.h"
#include "kernels/task_list.h"
#include "nn/parameter.h"
#include "nn/pass.h"

namespace dml {

struct LoraAdapter {
  ParameterRef a, b;             // (R, in), (out, R)
  ParameterRef bias = {};        // (out): + scale · bias
  ParameterRef magnitude = {};   // (out) with DoRA
  const float* norms = nullptr;  // (out), of a frozen DoRA adapter; null: computed in every forward pass
  float scale = 1;               // alpha / R, or alpha / sqrt(R) with rsLoRA
  float dropout = 0;             // on the input of A
  std::uint32_t stream = 0;      // the module's number, part of the address of its dropout mask
};

/// Whether x̃ differs from x.
inline bool has_dropout(const LoraAdapter& lora, const Pass& pass) { return pass.training && lora.dropout > 0; }

/// One adapter of a batch of adapters that are computed together: rows [row, row + rows) of the common input belong to
/// it. Its dropout mask counts them from `first_row`.
struct AdaptedRows {
  const LoraAdapter* lora;
  std::int64_t row, rows, first_row;
  Mat down;  // x̃ Aᵀ (rows, R); in backward its gradient
};
/// Sets every `down`. Forward and backward each generate the dropout mask.
void adapter_down(const kernels::TaskList<AdaptedRows>& adapters, ConstMat x, Pass& pass);
/// Adds to the gradients of A and, through the dropout mask, to dx unless it is empty.
void adapter_down_backward(const kernels::TaskList<AdaptedRows>& adapters, ConstMat x, Mat dx, Pass& pass);

}  // namespace dml
