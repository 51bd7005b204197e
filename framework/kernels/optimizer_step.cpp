#include "kernels/optimizer_step.h"

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/element_tasks.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {
std::int64_t length(std::span<const float> x) { return static_cast<std::int64_t>(x.size()); }

}  // namespace

void adamw(const AdamWStep& step, std::span<float> value, std::span<const float> grad, std::span<float> m,
           std::span<float> v) {
  ProfileScope profiled("adamw");
  DML_CHECK(grad.size() == value.size() && m.size() == value.size() && v.size() == value.size());
  parallel_ranges(length(value), kTaskElements, [&](std::int64_t i, std::int64_t end) {
    loops().adamw(step, value.data() + i, grad.data() + i, m.data() + i, v.data() + i, end - i);
  });
}

void adamw_8bit(const AdamWStep& step, std::span<float> value, std::span<const float> grad, CodedState m,
                CodedState v) {
  ProfileScope profiled("adamw_8bit");
  DML_CHECK(grad.size() == value.size() && m.codes.size() == value.size() && v.codes.size() == value.size());
  each_coded_block(length(value), [&](std::int64_t i, std::int64_t count) {
    DecodedBlock first(true, m, i, count), second(false, v, i, count);
    loops().adamw(step, value.data() + i, grad.data() + i, first.data(), second.data(), count);
  });
}

void lion_8bit(float learning_rate, float beta1, float beta2, float weight_decay, float gradient_scale,
               std::span<float> value, std::span<const float> grad, CodedState m) {
  ProfileScope profiled("lion_8bit");
  DML_CHECK(grad.size() == value.size() && m.codes.size() == value.size());
  each_coded_block(length(value), [&](std::int64_t i, std::int64_t count) {
    DecodedBlock first(true, m, i, count);
    loops().lion(learning_rate, beta1, beta2, weight_decay, gradient_scale, value.data() + i, grad.data() + i,
                 first.data(), count);
  });
}

void sgd(float learning_rate, float momentum, float weight_decay, float gradient_scale, std::span<float> value,
         std::span<const float> grad, std::span<float> buffer) {
  ProfileScope profiled("sgd");
  DML_CHECK(grad.size() == value.size() && buffer.size() == value.size());
  parallel_ranges(length(value), kTaskElements, [&](std::int64_t i, std::int64_t end) {
    loops().sgd(learning_rate, momentum, weight_decay, gradient_scale, value.data() + i, grad.data() + i,
                buffer.data() + i, end - i);
  });
}

void lion(float learning_rate, float beta1, float beta2, float weight_decay, float gradient_scale,
          std::span<float> value, std::span<const float> grad, std::span<float> m) {
  ProfileScope profiled("lion");
  DML_CHECK(grad.size() == value.size() && m.size() == value.size());
  parallel_ranges(length(value), kTaskElements, [&](std::int64_t i, std::int64_t end) {
    loops().lion(learning_rate, beta1, beta2, weight_decay, gradient_scale, value.data() + i, grad.data() + i,
                 m.data() + i, end - i);
  });
}

}  // namespace dml::kernels
