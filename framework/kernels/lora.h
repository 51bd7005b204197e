// The thin products of a low-rank adapter (rank R ≪ width): y += s · (x Aᵀ) Bᵀ with A (R,K), B (N,R). BLAS is slow at
// these shapes, so they have their own kernels. Sums are made in an order that threads have no part in. Several
// adapters, each with rows of its own, are worked on at once.
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
void lora_down(const TaskList<AdapterDown>& adapters, Arena& scratch, Rows rows = Rows::by_count);

/// y (T,N) += scale · down (T,R) · bᵀ.
struct AdapterUp {
  ConstMat down, b;
  float scale = 1;
  Mat y;
};
void lora_up(const TaskList<AdapterUp>& adapters);

/// Given dy: sets ddown (T,R) = scale · dy · b; adds scale · dyᵀ · down to db (N,R) when it is not empty.
struct AdapterUpGradient {
  ConstMat dy, down, b;
  float scale;
  Mat ddown, db;
};
void lora_up_backward(const TaskList<AdapterUpGradient>& adapters, Arena& scratch);

/// Given ddown: adds ddown · a to dx (T,K) when dx is not empty; adds ddownᵀ · x to da (R,K) likewise.
struct AdapterDownGradient {
  ConstMat ddown, x, a;
  Mat dx, da;
};
void lora_down_backward(const TaskList<AdapterDownGradient>& adapters, Arena& scratch);

}  // namespace dml::kernels
