// Gated activations h = act(gate) · up (Shazeer 2020) and plain activations h = act(x). relu2 is max(x, 0)² (So et al.
// 2021), quick_gelu is x · σ(1.702 x). xielu has parameters and its own kernels (kernels/xielu.h).
#pragma once

#include "core/bf16.h"
#include "core/matrix.h"
#include "kernels/activation.h"

namespace dml::kernels {

/// Gate and up in bf16, as forward saves them for backward.
struct RoundedGateUp {
  MatrixView<bf16> gate, up;
};

/// h may be `up`. Sets `saved` to gate and up unless it is empty.
void gated_act(Activation act, ConstMat gate, ConstMat up, Mat h, const RoundedGateUp& saved = {});
void gated_act(Activation act, const RoundedGateUp& in, Mat h);
/// Overwrites gate and up by their gradients.
void gated_act_backward(Activation act, ConstMat dh, Mat gate, Mat up);
/// Sets the gradients; either may be dh.
void gated_act_backward(Activation act, ConstMat dh, const RoundedGateUp& in, Mat dgate, Mat dup);

/// y may be x.
void activate(Activation act, ConstMat x, Mat y);
/// Overwrites x by its gradient.
void activate_backward(Activation act, ConstMat dy, Mat x);

}  // namespace dml::kernels
