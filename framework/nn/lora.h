// What layers with a low-rank adapter share: + s · (x̃ Aᵀ) Bᵀ, x̃ being x with dropout in training.
#pragma once

#include "core/matrix.h"
#include "nn/parameter.h"
#include "nn/pass.h"

namespace dml {

struct LoraAdapter {
  ParameterRef a, b;             // (R, in), (out, R)
  ParameterRef bias;             // (out): + scale · bias
  ParameterRef magnitude;        // (out) with DoRA
  const float* norms = nullptr;  // (out) of a DoRA that stays as it is; else every forward pass finds them
  float scale = 1;               // alpha / R, or alpha / sqrt(R) with rsLoRA
  float dropout = 0;             // on the input of A
  std::uint32_t stream = 0;      // the module's number: part of the address of its dropout mask
};

/// Whether x̃ is not x.
inline bool drops(const LoraAdapter& lora, const Pass& pass) { return pass.training && lora.dropout > 0; }
/// x with its dropout mask, in scratch, made again by forward and backward; x itself where nothing is dropped.
ConstMat adapter_input(const LoraAdapter& lora, ConstMat x, Pass& pass);
/// Given the gradient of x̃ Aᵀ: adds to A's gradient and, through the mask, to dx unless it is empty.
void adapter_input_backward(const LoraAdapter& lora, ConstMat ddown, ConstMat x, Mat dx, Pass& pass);

}  // namespace dml
