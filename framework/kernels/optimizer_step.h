// Fused optimizer updates over flat slices, one pass over memory.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/coded_state.h"

namespace dml::kernels {

struct AdamWStep {
  float learning_rate, beta1, beta2, epsilon, weight_decay;
  float bias1, bias2;    // 1 − beta1^t, 1 − beta2^t
  float gradient_scale;  // factor of the gradient: 1 / trained tokens, times the clipping factor
};

/// AdamW (Loshchilov & Hutter 2019), PyTorch's order of operations: value −= lr·wd·value; then
/// m = b1·m + (1−b1)·g; v = b2·v + (1−b2)·g²; value −= lr/bias1 · m / (sqrt(v)/sqrt(bias2) + eps).
void adamw(const AdamWStep& step, std::span<float> value, std::span<const float> grad, std::span<float> m,
           std::span<float> v);

/// adamw() with 8-bit m and v; the step uses their values before they are rounded.
void adamw_8bit(const AdamWStep& step, std::span<float> value, std::span<const float> grad, CodedState m, CodedState v);
/// lion() with 8-bit m.
void lion_8bit(float learning_rate, float beta1, float beta2, float weight_decay, float gradient_scale,
               std::span<float> value, std::span<const float> grad, CodedState m);

/// SGD with momentum, PyTorch's form: buffer = momentum·buffer + g (+ wd·value); value −= lr·buffer.
void sgd(float learning_rate, float momentum, float weight_decay, float gradient_scale, std::span<float> value,
         std::span<const float> grad, std::span<float> buffer);

/// Lion (Chen et al. 2023).
void lion(float learning_rate, float beta1, float beta2, float weight_decay, float gradient_scale,
          std::span<float> value, std::span<const float> grad, std::span<float> m);

}  // namespace dml::kernels
