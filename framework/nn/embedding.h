// Token embedding, scaled in some families, with learned positions in others. An adapter adds scale · s · A[:, token] Bᵀ.
#pragma once

#include <optional>

#include "kernels/weight.h"
#include "nn/lora.h"
#include "nn/pass.h"
#include "nn/token_rows.h"

namespace dml {

struct Embedding {
  kernels::Weight frozen, frozen_positions;
  ParameterRef table, positions;
  float scale = 1;
  std::optional<LoraAdapter> lora;  // A (R, V), B (D, R); no dropout, no magnitude
  TrainedTokens own;                // of a frozen table

  bool trains() const { return table || positions || lora || own; }
  kernels::Weight value() const { return table ? kernels::weight_of(table.value()) : frozen; }
  /// y (T, D). A table in parts is read, and its gradient made, part by part.
  void forward(Mat y, Pass& pass) const;
  /// Adds to the gradients.
  void backward(ConstMat dy, Pass& pass) const;
};

}  // namespace dml
