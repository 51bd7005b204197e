// Final norm, projection to the vocabulary and cross-entropy, of labeled rows only; the logits of a step are never
// stored as a whole. A head with a single output (a reward model) has no cross-entropy: the "loss" of a row is its
// output.
#pragma once

#include <optional>

#include "kernels/cross_entropy.h"
#include "kernels/gemm.h"
#include "kernels/weight.h"
#include "nn/lora.h"
#include "nn/norm.h"
#include "nn/token_rows.h"

namespace dml {

struct LossHead {
  Norm norm;
  kernels::Weight frozen;  // (V, D); the embedding in tied models
  ParameterRef weight;
  const float* frozen_bias = nullptr;  // (V) (Phi)
  ParameterRef bias;
  float scale = 1, softcap = 0;     // applied to the logits, in this order
  std::optional<LoraAdapter> lora;  // not DoRA
  TrainedTokens
      trained_tokens;  // trained rows of a frozen matrix without an adapter; those of the embedding in tied models

  bool trains() const { return norm.trains() || weight || bias || lora || trained_tokens; }
  kernels::Weight value() const { return weight ? weight.weight() : frozen; }
  bool outputs_rewards() const { return (weight ? weight.rows : frozen.rows) == 1; }

  /// x (N, D): the rows with a label. Returns the sum of the row losses. Unless d (N, D) is empty, it is set to the
  /// gradient of the sum and parameter gradients are added. With a single output, rows.losses are the outputs;
  /// log_squares and `extra` are not supported.
  double loss(ConstMat x, const kernels::RowLosses& rows, Mat d, Pass& pass) const;
  /// Sets logits (N, V) from x (N, D).
  void logits(ConstMat x, Mat logits, Arena& arena, kernels::RowMethod rows = kernels::RowMethod::by_count) const;

 private:
  /// h = scale · norm(x); since the projection is linear, this scales the logits.
  void hidden(ConstMat x, Mat h) const;
  void hidden_backward(Mat dh, ConstMat x, Mat d, Arena& arena) const;
  double outputs(ConstMat x, const kernels::RowLosses& rows, Mat d, Pass& pass) const;
  kernels::HeadBias bias_of(bool gradient) const;
  double loss_in_parts(ConstMat h, const kernels::RowLosses& rows, Mat dh, Pass& pass) const;
};

}  // namespace dml
