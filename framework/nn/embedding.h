// Token embedding, scaled in some families, with learned positions or a norm after it in others. An adapter adds scale
// · s · A[:, token] Bᵀ.
#pragma once

#include <optional>

#include "kernels/weight.h"
#include "nn/lora.h"
#include "nn/norm.h"
#include "nn/pass.h"
#include "nn/token_rows.h"

namespace dml {

struct Embedding {
  kernels::Weight frozen, frozen_positions;
  ParameterRef table, positions;
  float scale = 1;
  Norm norm;                        // BLOOM
  std::optional<LoraAdapter> lora;  // A (R, V), B (D, R); no dropout, no magnitude
  TrainedTokens own;                // trained rows of a frozen table

  bool trains() const { return table || positions || lora || own || norm.trains(); }
  kernels::Weight value() const { return table ? table.weight() : frozen; }
  /// Allocates what forward saves for backward: the norm's input (T, D). Empty without a norm, and where nothing is
  /// trained.
  Mat plan(std::int64_t tokens, std::int64_t width, Arena& saved) const;
  /// y (T, D). A table in parts is read, and its gradient made, part by part. `saved` empty: backward will not follow.
  void forward(Mat y, Mat saved, Pass& pass) const;
  /// Adds to the gradients; dy is overwritten.
  void backward(Mat dy, ConstMat saved, Pass& pass) const;

 private:
  void look_up(Mat y, Pass& pass) const;
};

}  // namespace dml
