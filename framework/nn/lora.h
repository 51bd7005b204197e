// Functions shared by layers with a low-rank adapter: + s · (x̃ Aᵀ) Bᵀ, x̃ being x with dropout in training.
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
  const float* norms = nullptr;  // (out), of a frozen DoRA; null: computed in every forward pass
  float scale = 1;               // alpha / R, or alpha / sqrt(R) with rsLoRA
  float dropout = 0;             // on the input of A
  std::uint32_t stream = 0;      // the module's number: part of the address of its dropout mask
};

/// Whether x̃ differs from x.
inline bool has_dropout(const LoraAdapter& lora, const Pass& pass) { return pass.training && lora.dropout > 0; }

/// Rows [row, row + rows) of what several adapters read, each its own. The dropout mask counts them from `first_row`
/// on.
struct AdaptedRows {
  const LoraAdapter* lora;
  std::int64_t row, rows, first_row;
  Mat down;  // x̃ Aᵀ (rows, R); of backward: its gradient
};
/// Sets every `down`. The dropout mask is made again by forward and backward.
void adapter_down(const kernels::TaskList<AdaptedRows>& adapters, ConstMat x, Pass& pass);
/// Adds to A's gradients and, through the mask, to dx unless it is empty.
void adapter_down_backward(const kernels::TaskList<AdaptedRows>& adapters, ConstMat x, Mat dx, Pass& pass);

}  // namespace dml
