// The matrix products of linear layers, and single-threaded OpenBLAS for use outside of a step. The bits of a row of a
// product depend only on that row, the weight and the RowMethod, not on the number of threads or on other rows.
#pragma once

#include "core/matrix.h"
#include "kernels/packed.h"
#include "kernels/weight.h"

namespace dml::kernels {

/// How the rows of a product are multiplied; the methods differ in bits. dots: dot products with weights as stored,
/// fast for few rows. packed: packed.h. by_count: dots for up to eight rows. Callers whose number of rows varies while
/// a row's bits must not (generation) pass dots or packed.
enum class RowMethod { by_count, dots, packed };

/// y (T,N) = or += x (T,K) · wᵀ, w (N,K): the forward product of a linear layer; unless `down` (T,R) is empty, + down ·
/// bᵀ, b (N,R): the layer's adapter.
struct ForwardProduct {
  ConstMat x;
  Weight w;
  Mat y;
  ConstMat down = {}, b = {};
  PackedCopy packed = {};  // of w and b; read if its tail is as deep as b
};
/// Several products at once, each with its own rows, at the speed of one. The bits are those of separate calls.
void gemm_nt(const TaskList<ForwardProduct>& products, Write mode, RowMethod rows = RowMethod::by_count);
inline void gemm_nt(ConstMat x, const Weight& w, Mat y, Write mode, RowMethod rows = RowMethod::by_count) {
  gemm_nt(ForwardProduct{x, w, y}, mode, rows);
}

/// gemm_nn for a dy stored as consecutive dense panels of `width` columns (the last may be narrower). Several calls
/// that add panels give the same bits as one call.
void gemm_nn_panels(const float* dy, std::int64_t rows, std::int64_t width, const Weight& w, Mat dx, Write mode);

/// dx (T,K) = or += dy (T,N) · w (N,K): the gradient of the input; unless `ddown` (T,R) is empty, + ddown · a, a (R,K).
struct InputGradient {
  ConstMat dy;
  Weight w;
  Mat dx;
  ConstMat ddown = {}, a = {};
  PackedCopy packed = {};  // of w and a, likewise
};
void gemm_nn(const TaskList<InputGradient>& products, Write mode);
inline void gemm_nn(ConstMat dy, const Weight& w, Mat dx, Write mode) { gemm_nn(InputGradient{dy, w, dx}, mode); }

/// The product that a packed copy of a weight is for: gemm_nt (forward) or gemm_nn (backward).
enum class Direction { forward, backward };
/// The size in floats of a packed copy of w (N,K) with its adapter's b (N,R) in forward or a (R,K) in backward, which
/// may be empty.
std::int64_t packed_size(const Weight& w, ConstMat adapter, Direction direction);
/// Packs both into `room`, in parallel.
PackedCopy pack_weight(const Weight& w, ConstMat adapter, Direction direction, float* room);
/// Replaces the adapter in a packed copy by one of the same rank.
void pack_adapter(const Weight& w, ConstMat adapter, Direction direction, float* packed);

/// dw (N,K) = or += dyᵀ · x, dy (T,N), x (T,K): the gradient of the weight.
struct WeightGradient {
  ConstMat dy, x;
  Mat dw;
  Write mode = Write::set;
};
void gemm_tn(const TaskList<WeightGradient>& products);
inline void gemm_tn(ConstMat dy, ConstMat x, Mat dw, Write mode) { gemm_tn(WeightGradient{dy, x, dw, mode}); }

/// Single-threaded c (m,n) = alpha · op(a) · op(b) + beta · c with leading dimensions, by OpenBLAS. Throws
/// Error(memory) when there is no room for OpenBLAS's buffer.
void sgemm_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                std::int64_t ldc);

/// Makes OpenBLAS allocate a buffer now, so that a run that lacks the memory ends before its work. Throws
/// Error(memory).
void reserve_blas_memory();

/// The measured rate of OpenBLAS's sgemm on one thread in FLOP/s (2048³, best of a few runs), as a reference of speed.
double measured_sgemm_rate();
/// The measured rate of gemm_nt in the precision in use, on all threads in FLOP/s (2048³, best of a few runs): an
/// upper bound for the rate of a step.
double measured_product_rate();
/// The build and the core type of OpenBLAS; part of the fingerprint of the numerics.
const char* blas_description();

}  // namespace dml::kernels
