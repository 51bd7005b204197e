// The matrix products of linear layers, and OpenBLAS, on one thread, for what happens outside of a step. The bits of a
// row of a product depend on that row and the weight alone: not on the number of threads, nor on what is computed
// beside it, as long as rows are multiplied in the same way (Rows).
#pragma once

#include "core/matrix.h"
#include "kernels/packed.h"
#include "kernels/weight.h"

namespace dml::kernels {

/// How the rows of a product are multiplied, which differs in bits: as dots with weights straight from their storage
/// (fast for few rows), or as packed products (packed.h). by_count: up to eight rows are dots. Who reads prompts and
/// generates for a changing set of sequences passes one of the two.
enum class Rows { by_count, dots, packed };

/// y (T,N) = or += x (T,K) · wᵀ, w (N,K): the forward product of a linear layer. Where there is a `down` (T,R),
/// + down · bᵀ, b (N,R): a layer with its adapter.
struct ForwardProduct {
  ConstMat x;
  Weight w;
  Mat y;
  ConstMat down = {}, b = {};
};
/// Those of several layers at once, each with rows of its own, at the rate of one. A row's bits are those of its
/// product alone.
void gemm_nt(const TaskList<ForwardProduct>& products, Write mode, Rows rows = Rows::by_count);
inline void gemm_nt(ConstMat x, const Weight& w, Mat y, Write mode, Rows rows = Rows::by_count) {
  gemm_nt(ForwardProduct{x, w, y}, mode, rows);
}
inline void gemm_nt_with(ConstMat x, const Weight& w, ConstMat down, ConstMat b, Mat y, Write mode,
                         Rows rows = Rows::by_count) {
  gemm_nt(ForwardProduct{x, w, y, down, b}, mode, rows);
}

/// gemm_nn for a dy that lies in dense panels of `width` columns (the last may be narrower), one after another. Panels
/// in several calls that add give the bits of one call.
void gemm_nn_panels(const float* dy, std::int64_t rows, std::int64_t width, const Weight& w, Mat dx, Write mode);

/// dx (T,K) = or += dy (T,N) · w (N,K): the gradient of its input. Where there is a `ddown` (T,R), + ddown · a, a
/// (R,K).
struct InputGradient {
  ConstMat dy;
  Weight w;
  Mat dx;
  ConstMat ddown = {}, a = {};
};
void gemm_nn(const TaskList<InputGradient>& products, Write mode);
inline void gemm_nn(ConstMat dy, const Weight& w, Mat dx, Write mode) { gemm_nn(InputGradient{dy, w, dx}, mode); }
inline void gemm_nn_with(ConstMat dy, const Weight& w, ConstMat ddown, ConstMat a, Mat dx, Write mode) {
  gemm_nn(InputGradient{dy, w, dx, ddown, a}, mode);
}

/// dw (N,K) = or += dyᵀ · x for dy (T,N), x (T,K): the gradient of its weight.
struct WeightGradient {
  ConstMat dy, x;
  Mat dw;
  Write mode = Write::set;
};
void gemm_tn(const TaskList<WeightGradient>& products);
inline void gemm_tn(ConstMat dy, ConstMat x, Mat dw, Write mode) { gemm_tn(WeightGradient{dy, x, dw, mode}); }

/// Single-threaded c (m,n) = alpha · op(a) · op(b) + beta · c with leading dimensions, by OpenBLAS.
void sgemm_tile(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
                std::int64_t ldc);

/// Lets the BLAS take its working memory for this thread now: where there is none left, it would wait for it for ever.
/// Error(memory).
void take_blas_memory();

/// Measured single-thread sgemm rate in FLOP/s (2048³, best of a few): what speed is compared with.
double measured_sgemm_rate();
/// Build and core names of the BLAS in use; part of the numerics fingerprint.
const char* blas_description();

}  // namespace dml::kernels
