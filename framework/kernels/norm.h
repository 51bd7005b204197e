// RMSNorm (Zhang & Sennrich 2019): y = x / rms(x) · (offset + w), rms(x) = sqrt(mean(x²) + eps); offset is 1 for Gemma.
// LayerNorm (Ba et al. 2016): y = (x − mean) / sqrt(var + eps) · (offset + w) + b; offset is 1 for Nemotron. b may be
// null.
#pragma once

#include "core/arena.h"
#include "core/matrix.h"

namespace dml::kernels {

/// x (T,D), w (D); y may be x. For norms of heads pass x as (T·heads, head_dim).
void rms_norm(ConstMat x, const float* w, float offset, float eps, Mat y);
/// Sets or adds to dx (which may be dy with Write::set); adds to dw (D) unless null.
void rms_norm_backward(ConstMat dy, ConstMat x, const float* w, float offset, float eps, Mat dx, Write mode, float* dw,
                       Arena& scratch);

void layer_norm(ConstMat x, const float* w, const float* b, float offset, float eps, Mat y);
void layer_norm_backward(ConstMat dy, ConstMat x, const float* w, float offset, float eps, Mat dx, Write mode,
                         float* dw, float* db, Arena& scratch);

}  // namespace dml::kernels
