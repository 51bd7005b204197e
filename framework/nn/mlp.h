// The feed-forward block: y = or += down(act(gate(x)) · up(x)), or down(act(up(x))) without a gate.
//
// Its activations are the widest of a model, so it works on chunks of rows (12 MB of the inner width, at least about
// 512 rows): small enough to save memory, large enough for fast products. If its own weights are trained, all rows are
// one chunk, since every chunk would add a pass over the weight gradients.
#pragma once

#include "kernels/gated_act.h"
#include "kernels/xielu.h"
#include "nn/linear.h"

namespace dml {

/// The outputs of gate (empty without one) and up, in float32 or as saved.
struct GateUp {
  SavedActivation gate, up;

  /// Memory for the outputs of so many rows. Empty if the policy does not save them.
  static GateUp plan(bool gates, std::int64_t rows, std::int64_t width, SavePolicy policy, Arena& saved);
  explicit operator bool() const { return static_cast<bool>(up); }
  bool whole() const { return up.whole.data; }
  /// Those of rows [first, first + count).
  GateUp slice(std::int64_t first, std::int64_t count) const;
};

/// The scalars of xIELU (kernels/xielu.h); beta and eps are constants.
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
  XieluScalars xielu = {};  // only for that activation, which has no gate

  struct Saved {
    GateUp inner;  // empty if backward recomputes them
    Linear::Saved gate_proj, up_proj, down_proj;

    Saved slice(std::int64_t first, std::int64_t count) const;
  };

  std::int64_t width() const { return up.out(); }
  bool trains() const { return gate.trains() || up.trains() || down.trains() || xielu.trains(); }

  Saved plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const;
  void forward(ConstMat x, Mat y, Write mode, const Saved& saved, Pass& pass) const;
  /// Adds parameter gradients; sets dx unless it is empty. Overwrites the saved gate and up by their gradients.
  void backward(ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const;
  /// Memory into which forward computes gate and up of so many rows: that of `saved` or, if they are rounded or not
  /// saved, scratch memory.
  GateUp open(const GateUp& saved, std::int64_t rows, Arena& scratch) const;
  /// Returns h (T, F) of in = open(saved), and rounds `in` to `saved` if that is in bf16. h has the memory of in.up
  /// unless that is saved.
  Mat activate(const GateUp& in, const GateUp& saved, Arena& scratch) const;
  /// Computes h (T, F) from what forward saved.
  void activate_saved(const GateUp& saved, Mat h) const;
  /// From dh to the gradients of gate and up: in the memory of `saved` or, if that is in bf16, of `spare` and dh. Adds
  /// parameter gradients.
  GateUp activate_backward(Mat dh, const GateUp& saved, Mat spare, Pass& pass) const;

 private:
  template <class F>
  void each_part(std::int64_t rows, const Saved& saved, Pass& pass, F part) const;
  void project(ConstMat x, const GateUp& to, Saved& saved, Pass& pass) const;
  void activate_plain(ConstMat x, Mat h) const;
};

}  // namespace dml
