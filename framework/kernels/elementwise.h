// Elementwise operations: copies, sums, bias, gathers, dropout. All are parallel over ranges of a fixed size.
#pragma once

#include <cstdint>
#include <span>

#include "core/bf16.h"
#include "core/matrix.h"
#include "core/random.h"

namespace dml::kernels {

void fill(std::span<float> x, float value);
void copy(ConstMat from, Mat to);
/// y += a · x.
void add_scaled(ConstMat x, float a, Mat y);
void scale(Mat x, float a);
/// x[t] *= factors[t].
void scale_rows(Mat x, std::span<const float> factors);
/// y[t] += bias.
void add_bias(const float* bias, Mat y);
/// dbias (N) += column sums of dy (T,N).
void bias_backward(ConstMat dy, float* dbias);
/// to[i] = from[rows[i]].
void gather_rows(ConstMat from, std::span<const std::int32_t> rows, Mat to);
/// to[rows[i]] += from[i] or = from[i]; the rows must be distinct. With Write::set the other rows become zero.
void scatter_rows(ConstMat from, std::span<const std::int32_t> rows, Mat to, Write mode);
/// to[r] = Σ from[i] over all i with rows[i] = r, in order; zero where there is none.
void sum_rows(ConstMat from, std::span<const std::int32_t> rows, Mat to);
/// Inverted dropout: y = x · mask / (1 − p), where the mask is a pure function of (random, element index). y may be x.
/// Applied to the gradient with the same `random` it is its own backward pass. x may be a part of a larger matrix,
/// beginning at its element `first` (a multiple of 4); the mask is that of the larger matrix.
void dropout(ConstMat x, float p, const Random& random, Mat y, std::int64_t first = 0);
/// Conversion of activations to bfloat16 and back.
void round_to_bf16(ConstMat from, MatrixView<bf16> to);
void widen_bf16(MatrixView<bf16> from, Mat to);
/// to = from, limited to ±limit. `to` may be `from`.
void clip(ConstMat from, float limit, Mat to);
/// The gradient of that, in place: zero where |from| is above the limit.
void clip_backward(ConstMat from, float limit, Mat d);
/// x = cap · tanh(x / cap).
void soft_cap(float cap, Mat x);
/// The index of the first value that is NaN or infinite, or −1.
std::int64_t first_not_finite(std::span<const float> x);
std::int64_t first_not_finite(std::span<const bf16> x);

}  // namespace dml::kernels
