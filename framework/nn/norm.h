// RMSNorm or LayerNorm over the width (kernels/norm.h), frozen or trainable.
#pragma once

#include "nn/parameter.h"
#include "nn/pass.h"

namespace dml {

struct Norm {
  bool layer_norm = false;
  float eps = 1e-6f, offset = 0;  // offset: 1 where the weight is stored as w − 1 (Gemma, Nemotron)
  const float* frozen = nullptr;
  const float* frozen_bias = nullptr;
  ParameterRef weight, bias;

  explicit operator bool() const { return frozen || weight; }
  bool trains() const { return weight || bias; }

  /// Normalizes every row of x; y may be x.
  void forward(ConstMat x, Mat y) const;
  /// Adds parameter gradients; sets or adds to dx unless it is empty. With Write::set, dx may be dy.
  void backward(ConstMat dy, ConstMat x, Mat dx, Write mode, Arena& scratch) const;

 private:
  const float* value() const { return weight ? weight.value().data : frozen; }
};

}  // namespace dml
