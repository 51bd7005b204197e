#include "nn/mlp.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/parallel.h"
#include "core/rounding.h"
#include "kernels/elementwise.h"

namespace dml {
namespace {

constexpr std::int64_t kPartRows = 512, kPartElements = std::int64_t{3} << 20;  // of a chunk, whichever is more

}  // namespace

GateUp GateUp::plan(bool gates, std::int64_t rows, std::int64_t width, SavePolicy policy, Arena& saved) {
  GateUp both;
  if (policy.mlp && gates) both.gate = SavedActivation::plan(rows, width, policy.intermediates, saved);
  if (policy.mlp) both.up = SavedActivation::plan(rows, width, policy.intermediates, saved);
  return both;
}

GateUp GateUp::slice(std::int64_t first, std::int64_t count) const {
  return {gate.slice(first, count), up.slice(first, count)};
}

Mlp::Saved Mlp::Saved::slice(std::int64_t first, std::int64_t count) const {
  return {inner.slice(first, count), gate_proj.slice(first, count), up_proj.slice(first, count),
          down_proj.slice(first, count)};
}

Mlp::Saved Mlp::plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const {
  Saved s;
  s.inner = GateUp::plan(static_cast<bool>(gate), tokens, width(), policy, saved);
  s.gate_proj = gate.plan(tokens, policy, saved);
  s.up_proj = up.plan(tokens, policy, saved);
  s.down_proj = down.plan(tokens, policy, saved);
  return s;
}

// Calls part for chunks of equal size.
template <class F>
void Mlp::each_part(std::int64_t rows, const Saved& s, Pass& pass, F part) const {
  std::int64_t good = std::max(kPartRows, kPartElements / width());
  const bool whole = gate.weight || up.weight || down.weight;
  std::int64_t parts = whole ? 1 : std::max<std::int64_t>(1, (rows + good / 2) / good);
  std::int64_t most = round_up(ceil_div(rows, parts), 16);
  // The largest chunk for any number of rows: the largest number that is not split, 1.5 · good − 1.
  if (dry_run_bounds() && !whole) most = std::min(rows, (2 * good - good / 2 - 1 + 15) / 16 * 16);
  std::int64_t first = 0;
  do {  // also once for zero rows, so that every pass makes the same calls
    Arena::Scope scope(pass.arena);
    std::int64_t count = std::min(most, rows - first);
    Pass some = pass;
    some.first_row += first;
    Saved saved = s.slice(first, count);
    part(first, count, saved, some);
    first += most;
  } while (first < rows);
}

void Mlp::project(ConstMat x, const GateUp& to, Saved& s, Pass& pass) const {
  const std::array both{FusedLinear{&gate, to.gate.whole, &s.gate_proj}, FusedLinear{&up, to.up.whole, &s.up_proj}};
  forward_fused(std::span(both).subspan(gate ? 0 : 1), x, pass);
}

GateUp Mlp::open(const GateUp& saved, std::int64_t rows, Arena& scratch) const {
  if (saved.whole()) return saved;
  return GateUp::plan(static_cast<bool>(gate), rows, width(), {}, scratch);
}

void Mlp::activate_plain(ConstMat x, Mat h) const {
  if (activation != kernels::Activation::xielu) kernels::activate(activation, x, h);
  else if (!dry_run()) kernels::xielu(xielu.values(), x, h);
}

Mat Mlp::activate(const GateUp& in, const GateUp& saved, Arena& scratch) const {
  const Mat upped = in.up.whole, h = saved.whole() ? scratch.matrix(upped.rows, upped.cols) : upped;
  if (gate) {
    kernels::gated_act(activation, in.gate.whole, upped, h, {saved.gate.rounded, saved.up.rounded});
    return h;
  }
  if (saved) saved.up.close(upped);
  activate_plain(upped, h);
  return h;
}

void Mlp::activate_saved(const GateUp& s, Mat h) const {
  if (s.whole())
    return gate ? kernels::gated_act(activation, s.gate.whole, s.up.whole, h) : activate_plain(s.up.whole, h);
  if (gate) return kernels::gated_act(activation, {s.gate.rounded, s.up.rounded}, h);
  kernels::widen_bf16(s.up.rounded, h);
  activate_plain(h, h);
}

GateUp Mlp::activate_backward(Mat dh, const GateUp& s, Mat spare, Pass& pass) const {
  if (gate) {
    if (!s.whole()) {
      kernels::gated_act_backward(activation, dh, {s.gate.rounded, s.up.rounded}, spare, dh);
      return {spare, dh};
    }
    kernels::gated_act_backward(activation, dh, s.gate.whole, s.up.whole);
    return s;
  }
  const Mat upped = s.whole() ? s.up.whole : spare;
  if (!s.whole()) kernels::widen_bf16(s.up.rounded, upped);
  if (activation != kernels::Activation::xielu) {
    kernels::activate_backward(activation, dh, upped);
  } else {
    auto gradient = [](const ParameterRef& p) { return p ? p.grad().data : nullptr; };
    const kernels::Xielu scalars = dry_run() ? kernels::Xielu{} : xielu.values();
    kernels::xielu_backward(scalars, dh, upped, gradient(xielu.alpha_p), gradient(xielu.alpha_n), pass.arena);
  }
  return {{}, upped};
}

void Mlp::forward(ConstMat x, Mat y, Write mode, const Saved& whole, Pass& all) const {
  each_part(x.rows, whole, all, [&](std::int64_t first, std::int64_t count, Saved& s, Pass& pass) {
    const GateUp inner = open(s.inner, count, pass.arena);
    project(x.slice(first, count), inner, s, pass);
    const Mat h = activate(inner, s.inner, pass.arena);
    down.forward(h, y.slice(first, count), mode, s.down_proj, pass);
  });
}

void Mlp::backward(ConstMat dy, ConstMat x, const Saved& whole, Mat dx, Pass& all) const {
  each_part(x.rows, whole, all, [&](std::int64_t first, std::int64_t count, Saved& s, Pass& pass) {
    ConstMat in = x.slice(first, count), dout = dy.slice(first, count);
    Mat din = dx.empty() ? Mat{} : dx.slice(first, count);
    const GateUp inner = s.inner ? s.inner : open({}, count, pass.arena);
    if (!s.inner) project(in, inner, s, pass);
    Mat h = pass.arena.matrix(count, width()), dh = pass.arena.matrix(count, width());
    if (down.trains()) activate_saved(inner, h);  // recomputed instead of saved; a frozen projection does not need it
    down.backward(dout, h, s.down_proj, dh, Write::set, pass);
    const GateUp d = activate_backward(dh, inner, h, pass);
    up.backward(d.up.whole, in, s.up_proj, din, Write::set, pass);
    if (gate) gate.backward(d.gate.whole, in, s.gate_proj, din, Write::add, pass);
  });
}

}  // namespace dml
