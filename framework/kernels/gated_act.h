// Gated activations: h = act(gate) · up (Shazeer 2020), and the plain activation h = act(x). relu2 is max(x, 0)² (So et
// al. 2021), quick_gelu x · σ(1.702 x). xielu has parameters, and kernels of its own: kernels/xielu.h.
#pragma once

#include "core/matrix.h"

namespace dml::kernels {

/// clamped_silu, for gates alone: (up + 1) · gate · σ(1.702 · gate), gate at most 7 and up within ±7 (gpt-oss).
enum class Activation { silu, gelu, gelu_tanh, relu, relu2, quick_gelu, tanh, xielu, clamped_silu };

void gated_act(Activation act, ConstMat gate, ConstMat up, Mat h);
/// gate and up come in as values and go out as their own gradients.
void gated_act_backward(Activation act, ConstMat dh, Mat gate, Mat up);

void activate(Activation act, ConstMat x, Mat y);
/// x comes in as the value and goes out as its gradient.
void activate_backward(Activation act, ConstMat dy, Mat x);

}  // namespace dml::kernels
