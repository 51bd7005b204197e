// The products of a low-rank adapter (rank R ≪ width): y += s · (x Aᵀ) Bᵀ with A (R,K), B (N,R). They have their own
// kernels, since BLAS is slow for these shapes. The order of sums does not depend on threads. Several adapters, each
// with its own rows, are computed at once.
#pragma once

#include "core/arena.h"
#include "core/matrix.h"
#include "kernels/gemm.h"

namespace dml::kernels {

/// down (T,R) = x (T,K) · aᵀ.
struct AdapterDown {
  ConstMat x, a;
  Mat down;
};
void lora_down(const TaskList<AdapterDown>& adapters, Arena& scratch, RowMethod rows = RowMethod::by_count);

/// y (T,N) += scale · down (T,R) · bᵀ.
struct AdapterUp {
  ConstMat down, b;
  float scale = 1;
  Mat y;
};
void lora_up(const TaskList<AdapterUp>& adapters);

/// Given dy (T,N): sets ddown (T,R) = scale · dy · b; adds scale · dyᵀ · down to db (N,R) unless it is empty.
struct AdapterUpGradient {
  ConstMat dy, down, b;
  float scale;
  Mat ddown, db;
};
void lora_up_backward(const TaskList<AdapterUpGradient>& adapters, Arena& scratch);

/// Given ddown (T,R): adds ddown · a to dx (T,K) unless dx is empty, and ddownᵀ · x to da (R,K) unless da is empty.
struct AdapterDownGradient {
  ConstMat ddown, x, a;
  Mat dx, da;
};
void lora_down_backward(const TaskList<AdapterDownGradient>& adapters, Arena& scratch);

}  // namespace dml::kernels
