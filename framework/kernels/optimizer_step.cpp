#include "kernels/optimizer_step.h"

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {
constexpr std::int64_t kGrain = 16384;
std::int64_t length(std::span<const float> x) { return static_cast<std::int64_t>(x.size()); }
}  // namespace

void adamw(const AdamWStep& step, std::span<float> value, std::span<const float> grad, std::span<float> m,
           std::span<float> v) {
  ProfileScope profiled("adamw");
  DML_CHECK(grad.size() == value.size() && m.size() == value.size() && v.size() == value.size());
  parallel_ranges(length(value), kGrain, [&](std::int64_t i, std::int64_t end) {
    loops().adamw(step, value.data() + i, grad.data() + i, m.data() + i, v.data() + i, end - i);
  });
}

void sgd(float learning_rate, float momentum, float weight_decay, float gradient_scale, std::span<float> value,
         std::span<const float> grad, std::span<float> buffer) {
  ProfileScope profiled("sgd");
  DML_CHECK(grad.size() == value.size() && buffer.size() == value.size());
  parallel_ranges(length(value), kGrain, [&](std::int64_t i, std::int64_t end) {
    loops().sgd(learning_rate, momentum, weight_decay, gradient_scale, value.data() + i, grad.data() + i,
                buffer.data() + i, end - i);
  });
}

void lion(float learning_rate, float beta1, float beta2, float weight_decay, float gradient_scale,
          std::span<float> value, std::span<const float> grad, std::span<float> m) {
  ProfileScope profiled("lion");
  DML_CHECK(grad.size() == value.size() && m.size() == value.size());
  parallel_ranges(length(value), kGrain, [&](std::int64_t i, std::int64_t end) {
    loops().lion(learning_rate, beta1, beta2, weight_decay, gradient_scale, value.data() + i, grad.data() + i,
                 m.data() + i, end - i);
  });
}

}  // namespace dml::kernels
