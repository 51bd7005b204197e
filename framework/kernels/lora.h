// The thin products of a low-rank adapter (rank R ≪ width): y += s · (x Aᵀ) Bᵀ with A (R,K), B (N,R). BLAS is slow at these
// shapes, so they have their own kernels. Sums are made in an order that threads have no part in.
#pragma once

#include "core/arena.h"
#include "core/matrix.h"
#include "kernels/gemm.h"

namespace dml::kernels {

/// down (T,R) = x (T,K) · aᵀ.
void lora_down(ConstMat x, ConstMat a, Mat down, Rows rows = Rows::by_count);
/// y (T,N) += scale · down (T,R) · bᵀ.
void lora_up(ConstMat down, ConstMat b, float scale, Mat y);
/// Given dy: sets ddown (T,R) = scale · dy · b; adds scale · dyᵀ · down to db (N,R) when it is not empty.
void lora_up_backward(ConstMat dy, ConstMat down, ConstMat b, float scale, Mat ddown, Mat db, Arena& scratch);
/// Given ddown: adds ddown · a to dx (T,K) when dx is not empty; adds ddownᵀ · x to da (R,K) likewise.
void lora_down_backward(ConstMat ddown, ConstMat x, ConstMat a, Mat dx, Mat da, Arena& scratch);

}  // namespace dml::kernels
