// The feed-forward block: y = or += down(act(gate(x)) · up(x)), or down(act(up(x))) where there is no gate.
#pragma once

#include "kernels/gated_act.h"
#include "nn/linear.h"

namespace dml {

struct Mlp {
  kernels::Activation activation = kernels::Activation::silu;
  Linear gate, up, down;        // gate is empty in families without one

  struct Saved {
    Mat gate, up;               // empty when backward is to compute them again (`keep` false)
    Linear::Saved gate_proj, up_proj, down_proj;
  };

  std::int64_t width() const { return up.out(); }
  bool trains() const { return gate.trains() || up.trains() || down.trains(); }

  Saved plan(std::int64_t tokens, bool keep, Arena& saved) const;
  void forward(ConstMat x, Mat y, Write mode, Saved& saved, Pass& pass) const;
  /// Sets dx unless it is empty. Consumes saved: gate and up are overwritten by their own gradients.
  void backward(ConstMat dy, ConstMat x, Saved& saved, Mat dx, Pass& pass) const;

 private:
  void project(ConstMat x, Saved& saved, Pass& pass) const;
  void activate(const Saved& saved, Mat h) const;
};

}  // namespace dml
