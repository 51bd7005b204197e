// The inner loops of all kernels, compiled once per instruction set from the same source and selected at program start.
//
// A loop runs on the calling thread. Its bits depend on its arguments and the instruction set only. In small_gemm and
// dot_block every element of the result is one fixed chain of additions over k, whatever the other sizes, so the bits
// of a row do not depend on other rows.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "core/bf16.h"
#include "kernels/activation.h"
#include "kernels/optimizer_step.h"
#include "kernels/processor.h"
#include "kernels/range_ops.h"
#include "kernels/simd/product_loops.h"
#include "kernels/weight.h"

namespace dml::kernels {

constexpr std::int64_t kDotRows =
    8;  // products of up to so many rows are dots, with one fixed order of sums per element

/// kernels/xielu.h, after softplus.
struct XieluFactors {
  float p, n, beta, eps;
};

struct Loops {
  /// c (m,n) = or += alpha · a · b; a(i,k) is a[i·a_row + k·a_col], b (k,n) has contiguous rows ldb apart.
  void (*small_gemm)(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_row,
                     std::int64_t a_col, const float* b, std::int64_t ldb, float alpha, float* c, std::int64_t ldc,
                     bool add);
  /// c (m,n) = or += a (m,k) · b (n,k)ᵀ, for long k.
  void (*dot_block)(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* b,
                    std::int64_t ldb, float* c, std::int64_t ldc, bool add);
  /// to (cols,rows) = alpha · from (rows,cols)ᵀ; columns of `to` up to `padded` ≥ rows become zero.
  void (*transpose)(std::int64_t rows, std::int64_t cols, const float* from, std::int64_t ld, float alpha, float* to,
                    std::int64_t padded);

  /// to (rows,cols) dense = from, rows ld apart: rows many kilobytes apart would fall into the same few cache sets.
  void (*copy_block)(std::int64_t rows, std::int64_t cols, const float* from, std::int64_t ld, float* to);

  std::int64_t room;  // scratch memory of few_rows: floats per column, columns rounded up to a multiple of 128
  /// c (m,count) = or += x (m, w.cols) · (rows [first, first + count) of w)ᵀ with the weights as stored, for m ≤
  /// kDotRows. The bits are those of dot_block on the float32 values, except for int8, whose sums are scaled at the
  /// end. With AMX, products of three or more rows with int8 and bf16-rounded NF4 use tiles. In the precision of bf16
  /// x and the weights' values are rounded where VDPBF16PS multiplies them (avx512_bf16), and on tiles with weights of
  /// bf16 (amx); x is rounded to 16-bit integers where vpmaddwd multiplies them with quantized weights (avx2), and on
  /// tiles with ggml's blocks (amx). The bits of a row do not depend on other rows multiplied by the same method.
  void (*few_rows)(const Weight& w, std::int64_t first, std::int64_t count, std::int64_t m, const float* x,
                   std::int64_t ldx, float* c, std::int64_t ldc, bool add, float* room);
  /// Whether few_rows takes a weight as it is stored; others are unpacked first.
  bool (*reads_as_stored)(const Weight& w);
  /// Products with at least so many rows use one method, those with fewer another.
  std::int64_t (*min_batched_rows)(const Weight& w);

  /// Rounded to nearest, ties to even; NaN stays NaN.
  void (*to_bf16)(const float* from, std::int64_t n, void* to);
  // Storage to float32, n values.
  void (*from_bf16)(const void* from, std::int64_t n, float* to);
  void (*from_f16)(const void* from, std::int64_t n, float* to);
  void (*from_int8)(const void* from, std::int64_t n, float scale, float* to);
  /// Values [first, first + n) of a row of mxfp4 or of ggml's blocks (quant_ggml.h). w.cols, first and n are multiples
  /// of the block size. The bits are those of BlockFormat::unpack; null where that is as fast.
  void (*from_blocks)(const Weight& w, std::int64_t row, std::int64_t first, std::int64_t n, float* to);
  /// Values [first, first + n) of a stream of 4-bit codes with one scale per 64; `rounded`: to bf16.
  void (*from_nf4)(const void* from, const float* scales, bool rounded, std::int64_t first, std::int64_t n, float* to);

  // Norms of one row of d values. The backward passes add to dw and db unless null.
  void (*rms_norm)(const float* x, const float* w, float offset, float eps, std::int64_t d, float* y);
  void (*rms_norm_backward)(const float* dy, const float* x, const float* w, float offset, float eps, std::int64_t d,
                            float* dx, bool add, float* dw);
  void (*layer_norm)(const float* x, const float* w, const float* b, float offset, float eps, std::int64_t d, float* y);
  void (*layer_norm_backward)(const float* dy, const float* x, const float* w, float offset, float eps, std::int64_t d,
                              float* dx, bool add, float* dw, float* db);

  /// One token: `heads` heads of head_dim, pairs (j, j + half).
  void (*rope)(float* x, std::int64_t heads, std::int64_t head_dim, std::int64_t half, const float* cos,
               const float* sin, float sign);
  /// Pairs (2j, 2j + 1).
  void (*rope_interleaved)(float* x, std::int64_t heads, std::int64_t head_dim, std::int64_t half, const float* cos,
                           const float* sin, float sign);

  // Activations, except xielu and clamped_silu.
  void (*gated_act)(Activation act, const float* gate, const float* up, std::int64_t n, float* h);
  void (*gated_act_backward)(Activation act, const float* dh, float* gate, float* up, std::int64_t n);
  void (*activate)(Activation act, const float* x, std::int64_t n, float* y);
  void (*activate_backward)(Activation act, const float* dy, float* x, std::int64_t n);
  void (*xielu)(const XieluFactors& f, const float* x, std::int64_t n, float* y);
  /// Overwrites x by its gradient; sets sums[0] and sums[1] to the gradients of f.p and f.n.
  void (*xielu_backward)(const XieluFactors& f, const float* dy, float* x, std::int64_t n, float* sums);

  // Attention tiles. Forward: s is (keys, width) of scaled scores, queries along the row; width is a multiple of 16.
  // Query q sees keys [low + q, high + q) of the tile. Updates the running max and sum of every query, sets fix[q] to
  // the rescaling factor of the previous sums, and overwrites s by exp(s − max), zero where a query does not see a key.
  // Of every 16 queries [b, b + 16) only the keys [low + b, high + b + 15) are read and written.
  void (*attention_softmax)(float* s, std::int64_t keys, std::int64_t width, std::int64_t low, std::int64_t high,
                            float softcap, float* max, float* sum, float* fix);
  /// Backward of one query: overwrites the scores s (keys) by p, and dout·v in dp (keys) by the gradient of q·k.
  void (*attention_gradient)(float* s, float* dp, std::int64_t keys, std::int64_t low, std::int64_t high, float softcap,
                             float scale, float lse, float row_dot);

  // Softmax over one row of logits.
  void (*softcap)(float* x, std::int64_t n, float cap);
  RowStats (*row_stats)(const float* x, std::int64_t n);
  /// Returns the statistics and overwrites x by exp(x − max).
  RowStats (*row_exponentials)(float* x, std::int64_t n);
  /// x = exp(x − shift).
  void (*exp_shifted)(float* x, std::int64_t n, float shift);
  /// x = exp(x − lse) · (1 − (x/cap)²).
  void (*capped_softmax_gradient)(float* x, std::int64_t n, float lse, float cap);

  // Elementwise.
  float (*dot)(const float* a, const float* b, std::int64_t n);
  void (*add_scaled)(const float* x, float a, float* y, std::int64_t n);
  void (*set_scaled)(const float* x, float a, float* y, std::int64_t n);
  /// y = x · keep(word) / (1 − p), words [4·first_block …) of a Philox stream; n values.
  void (*dropout)(const float* x, std::int64_t n, std::uint32_t threshold, float factor, std::uint64_t first_block,
                  const std::uint32_t* key, const std::uint32_t* high, float* y);
  double (*sum_of_squares)(const float* x, std::int64_t n);
  bool (*all_finite)(const float* x, std::int64_t n);

  // Optimizers, as in optimizer_step.h.
  void (*adamw)(const AdamWStep& step, float* value, const float* grad, float* m, float* v, std::int64_t n);
  void (*sgd)(float rate, float momentum, float decay, float scale, float* value, const float* grad, float* buffer,
              std::int64_t n);
  void (*lion)(float rate, float beta1, float beta2, float decay, float scale, float* value, const float* grad,
               float* m, std::int64_t n);
};

/// The loops of the instruction set and precision in use (kernels/processor.h).
const Loops& loops();

/// This thread's scratch memory, 64-byte aligned. It only grows, so that steps allocate nothing; the next call on the
/// same thread returns the same memory.
std::span<float> thread_scratch(std::int64_t floats);
/// Another such block, for what all threads of this thread's next parallel_for read or write.
std::span<float> shared_scratch(std::int64_t floats);

}  // namespace dml::kernels
