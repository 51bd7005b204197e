// Token embedding, in some families scaled, with learned positions, or followed by a norm. An adapter adds scale · s ·
// A[:, token] Bᵀ.
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
  TrainedTokens trained_tokens;     // trained rows of a frozen table

  bool trains() const { return table || positions || lora || trained_tokens || norm.trains(); }
  kernels::Weight value() const { return table ? table.weight() : frozen; }
  /// Allocates what forward saves for backward: the norm's input (T, D). Empty without a norm, and where nothing is
  /// trained.
  Mat plan(std::int64_t tokens, std::int64_t width, Arena& saved) const;
  /// Sets y (T, D). `saved` is that of plan(); empty if backward does not follow. A table in several parts is processed
  /// part by part.
  void forward(Mat y, Mat saved, Pass& pass) const;
  /// Adds to the parameter gradients; overwrites dy (T, D).
  void backward(Mat dy, ConstMat saved, Pass& pass) const;

 private:
  void look_up(Mat y, Pass& pass) const;
};

}  // namespace dml
