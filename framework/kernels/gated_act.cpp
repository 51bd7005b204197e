#include "kernels/gated_act.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {
namespace {
constexpr std::int64_t kGrain = 8192, kPiece = 1024;

// Whether loops().activate has it.
bool is_plain(Activation act) { return act != Activation::xielu && act != Activation::clamped_silu; }

// gate · σ(a · gate) = silu(a · gate) / a, so after clamping and scaling this is a gated SiLU.
constexpr float kAlpha = 1.702f, kLimit = 7;

void clamp(const float* gate, const float* up, std::int64_t n, float* to_gate, float* to_up) {
  for (std::int64_t i = 0; i < n; ++i) {
    to_gate[i] = kAlpha * std::min(gate[i], kLimit);
    to_up[i] = (std::clamp(up[i], -kLimit, kLimit) + 1) / kAlpha;
  }
}

void value(Activation act, const float* gate, const float* up, std::int64_t n, float* h) {
  DML_CHECK(act != Activation::xielu);
  if (act != Activation::clamped_silu) return loops().gated_act(act, gate, up, n, h);
  float *g = thread_scratch(2 * n).data(), *u = g + n;
  clamp(gate, up, n, g, u);
  loops().gated_act(Activation::silu, g, u, n, h);
}

// Overwrites gate and up by their gradients.
void gradients(Activation act, const float* dh, float* gate, float* up, std::int64_t n) {
  DML_CHECK(act != Activation::xielu);
  if (act != Activation::clamped_silu) return loops().gated_act_backward(act, dh, gate, up, n);
  float *g = thread_scratch(2 * n).data(), *u = g + n;
  clamp(gate, up, n, g, u);
  loops().gated_act_backward(Activation::silu, dh, g, u, n);
  for (std::int64_t i = 0; i < n; ++i) {
    gate[i] = gate[i] <= kLimit ? kAlpha * g[i] : 0;
    up[i] = std::abs(up[i]) <= kLimit ? u[i] / kAlpha : 0;
  }
}

// Calls f(first, count) for blocks that stay in the first cache.
template <class F>
void each_block(std::int64_t size, F f) {
  parallel_ranges(size, kGrain, [&](std::int64_t first, std::int64_t last) {
    for (; first < last; first += kPiece) f(first, std::min(kPiece, last - first));
  });
}

// … f(first, count, gate, up) with the values in float32, which f may overwrite.
template <class F>
void each_widened_block(const RoundedGateUp& in, F f) {
  each_block(in.up.size(), [&](std::int64_t first, std::int64_t count) {
    alignas(64) float gate[kPiece], up[kPiece];
    loops().from_bf16(in.gate.data + first, count, gate);
    loops().from_bf16(in.up.data + first, count, up);
    f(first, count, gate, up);
  });
}

}  // namespace

void gated_act(Activation act, ConstMat gate, ConstMat up, Mat h, const RoundedGateUp& saved) {
  ProfileScope profiled("gated_act");
  DML_CHECK(gate.size() == up.size() && gate.size() == h.size());
  DML_CHECK(!saved.up.data || (saved.gate.size() == gate.size() && saved.up.size() == up.size()));
  each_block(h.size(), [&](std::int64_t first, std::int64_t count) {
    if (saved.up.data) {
      loops().to_bf16(gate.data + first, count, saved.gate.data + first);
      loops().to_bf16(up.data + first, count, saved.up.data + first);
    }
    value(act, gate.data + first, up.data + first, count, h.data + first);
  });
}

void gated_act(Activation act, const RoundedGateUp& in, Mat h) {
  ProfileScope profiled("gated_act");
  DML_CHECK(in.gate.size() == in.up.size() && in.up.size() == h.size());
  each_widened_block(in, [&](std::int64_t first, std::int64_t count, const float* gate, const float* up) {
    value(act, gate, up, count, h.data + first);
  });
}

void gated_act_backward(Activation act, ConstMat dh, Mat gate, Mat up) {
  ProfileScope profiled("gated_act_backward");
  DML_CHECK(gate.size() == up.size() && gate.size() == dh.size());
  each_block(dh.size(), [&](std::int64_t first, std::int64_t count) {
    gradients(act, dh.data + first, gate.data + first, up.data + first, count);
  });
}

void gated_act_backward(Activation act, ConstMat dh, const RoundedGateUp& in, Mat dgate, Mat dup) {
  ProfileScope profiled("gated_act_backward");
  DML_CHECK(in.gate.size() == in.up.size() && in.up.size() == dh.size());
  DML_CHECK(dgate.size() == dh.size() && dup.size() == dh.size());
  DML_CHECK(dh.empty() || dgate.data != dup.data);
  each_widened_block(in, [&](std::int64_t first, std::int64_t count, float* gate, float* up) {
    gradients(act, dh.data + first, gate, up, count);
    std::copy_n(gate, count, dgate.data + first);
    std::copy_n(up, count, dup.data + first);
  });
}

void activate(Activation act, ConstMat x, Mat y) {
  ProfileScope profiled("activate");
  DML_CHECK(x.size() == y.size() && is_plain(act));
  parallel_ranges(x.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().activate(act, x.data + first, last - first, y.data + first);
  });
}

void activate_backward(Activation act, ConstMat dy, Mat x) {
  ProfileScope profiled("activate_backward");
  DML_CHECK(x.size() == dy.size() && is_plain(act));
  parallel_ranges(x.size(), kGrain, [&](std::int64_t first, std::int64_t last) {
    loops().activate_backward(act, dy.data + first, x.data + first, last - first);
  });
}

}  // namespace dml::kernels
