// The feed-forward block: y = or += down(act(gate(x)) · up(x)), or down(act(up(x))) where there is no gate.
//
// It is the widest part of a model, so it works on some rows at a time (12 MB of the inner width, at least some 512):
// few enough that what it computes on the way stays small, enough that the products stay fast. Where its own weights
// are trained all rows go at once: a gradient of a weight is a pass over that weight's size.
#pragma once

#include "kernels/gated_act.h"
#include "kernels/xielu.h"
#include "nn/linear.h"

namespace dml {

/// The scalars of an xIELU; beta and eps are constants.
struct XieluScalars {
  ParameterRef alpha_p, alpha_n;
  const float *frozen_p = nullptr, *frozen_n = nullptr, *beta = nullptr, *eps = nullptr;

  bool trains() const { return alpha_p || alpha_n; }
  kernels::Xielu values() const {
    return {alpha_p ? *alpha_p.value().data : *frozen_p, alpha_n ? *alpha_n.value().data : *frozen_n, *beta, *eps};
  }
};

struct Mlp {
  kernels::Activation activation = kernels::Activation::silu;
  Linear gate, up, down;    // gate is empty in families without one
  XieluScalars xielu = {};  // of that activation, without a gate

  struct Saved {
    SavedActivation gate, up;  // empty when backward is to compute them again
    Linear::Saved gate_proj, up_proj, down_proj;

    Saved slice(std::int64_t first, std::int64_t count) const;
  };

  std::int64_t width() const { return up.out(); }
  bool trains() const { return gate.trains() || up.trains() || down.trains() || xielu.trains(); }

  Saved plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const;
  void forward(ConstMat x, Mat y, Write mode, const Saved& saved, Pass& pass) const;
  /// Sets dx unless it is empty. Consumes saved: gate and up are overwritten by their own gradients.
  void backward(ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const;
  /// h from what gate (empty where there is none) and up gave.
  void activate(ConstMat gated, ConstMat upped, Mat h) const;

 private:
  template <class F>
  void each_part(std::int64_t rows, const Saved& saved, Pass& pass, F part) const;
  void project(ConstMat x, Mat to_gate, Mat to_up, Saved& saved, Pass& pass) const;
  /// gated and upped become their own gradients.
  void activate_backward(ConstMat dh, Mat gated, Mat upped, Pass& pass) const;
};

}  // namespace dml
