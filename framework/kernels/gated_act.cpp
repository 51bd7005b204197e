#include "kernels/gated_act.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {
constexpr std::int64_t kGrain = 8192;

// gate · σ(a · gate) = silu(a · gate) / a, so after clamping and scaling this is a gated SiLU.
constexpr float kAlpha = 1.702f, kLimit = 7;

void clamp(const float* gate, const float* up, std::int64_t n, float* to_gate, float* to_up) {
  for (std::int64_t i = 0; i < n; ++i) {
    to_gate[i] = kAlpha * std::min(gate[i], kLimit);
    to_up[i] = (std::clamp(up[i], -kLimit, kLimit) + 1) / kAlpha;
  }
}

void clamped(const float* gate, const float* up, std::int64_t n, float* h) {
  float *g = thread_scratch(2 * n).data(), *u = g + n;
  clamp(gate, up, n, g, u);
  loops().gated_act(static_cast<int>(Activation::silu), g, u, n, h);
}

void clamped_backward(const float* dh, float* gate, float* up, std::int64_t n) {
  float *g = thread_scratch(2 * n).data(), *u = g + n;
  clamp(gate, up, n, g, u);
  loops().gated_act_backward(static_cast<int>(Activation::silu), dh, g, u, n);
  for (std::int64_t i = 0; i < n; ++i) {
    gate[i] = gate[i] <= kLimit ? kAlpha * g[i] : 0;
    up[i] = std::abs(up[i]) <= kLimit ? u[i] / kAlpha : 0;
  }
}

}  // namespace

void gated_act(Activation act, ConstMat gate, ConstMat up, Mat h) {
  ProfileScope profiled("gated_act");
  DML_CHECK(gate.size() == up.size() && gate.size() == h.size());
  parallel_ranges(h.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    if (act == Activation::clamped_silu)
      return clamped(gate.data + first, up.data + first, last - first, h.data + first);
    loops().gated_act(static_cast<int>(act), gate.data + first, up.data + first, last - first, h.data + first);
  });
}

void gated_act_backward(Activation act, ConstMat dh, Mat gate, Mat up) {
  ProfileScope profiled("gated_act_backward");
  DML_CHECK(gate.size() == up.size() && gate.size() == dh.size());
  parallel_ranges(dh.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    if (act == Activation::clamped_silu)
      return clamped_backward(dh.data + first, gate.data + first, up.data + first, last - first);
    loops().gated_act_backward(static_cast<int>(act), dh.data + first, gate.data + first, up.data + first,
                               last - first);
  });
}

void activate(Activation act, ConstMat x, Mat y) {
  ProfileScope profiled("activate");
  DML_CHECK(x.size() == y.size());
  parallel_ranges(x.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().activate(static_cast<int>(act), x.data + first, last - first, y.data + first);
  });
}

void activate_backward(Activation act, ConstMat dy, Mat x) {
  ProfileScope profiled("activate_backward");
  DML_CHECK(x.size() == dy.size());
  parallel_ranges(x.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().activate_backward(static_cast<int>(act), dy.data + first, x.data + first, last - first);
  });
}

}  // namespace dml::kernels
