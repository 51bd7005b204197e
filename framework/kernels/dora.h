// DoRA (Liu et al. 2024): y = (m / ‖W + s·B·A‖) ⊙ (x Wᵀ + s · (x Aᵀ) Bᵀ), the norm taken over every output row and
// treated as a constant by the gradient, as in PEFT.
#pragma once

#include "core/arena.h"
#include "core/matrix.h"
#include "kernels/weight.h"

namespace dml::kernels {

/// norms[n] = ‖w[n] + scale · b[n] · a‖₂ for w (N,K), a (R,K), b (N,R).
void dora_norms(const Weight& w, ConstMat a, ConstMat b, float scale, float* norms);
/// y[t][n] *= magnitude[n] / norms[n].
void dora_scale(const float* magnitude, const float* norms, Mat y);
/// dmagnitude[n] += Σ_t dy[t][n] · plain[t][n] / norms[n], plain being y before dora_scale.
void dora_magnitude_backward(ConstMat dy, ConstMat plain, const float* norms, float* dmagnitude, Arena& scratch);

}  // namespace dml::kernels
