// xIELU (Huang and Schlag 2024), the activation of Apertus, with two trained scalars per layer:
//   y = p · x² + beta · x                              for x > 0,   p = softplus(alpha_p)
//   y = n · (expm1(min(x, eps)) − x) + beta · x        otherwise,   n = beta + softplus(alpha_n)
#pragma once

#include "core/arena.h"
#include "core/matrix.h"

namespace dml::kernels {

struct Xielu {
  float alpha_p = 0, alpha_n = 0;  // before softplus
  float beta = 0.5f, eps = -1e-6f;
};

/// y may be x.
void xielu(const Xielu& act, ConstMat x, Mat y);
/// Overwrites x by its gradient; adds to the gradients of the scalars unless null.
void xielu_backward(const Xielu& act, ConstMat dy, Mat x, float* dalpha_p, float* dalpha_n, Arena& scratch);

}  // namespace dml::kernels
