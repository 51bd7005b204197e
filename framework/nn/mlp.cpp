#include "nn/mlp.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/parallel.h"

namespace dml {
namespace {

constexpr std::int64_t kPartRows = 512, kPartElements = std::int64_t{3} << 20;  // of a chunk, whichever is more

}  // namespace

Mlp::Saved Mlp::Saved::slice(std::int64_t first, std::int64_t count) const {
  return {gate.slice(first, count), up.slice(first, count), gate_proj.slice(first, count), up_proj.slice(first, count),
          down_proj.slice(first, count)};
}

Mlp::Saved Mlp::plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const {
  Saved s;
  if (policy.mlp) {
    if (gate) s.gate = SavedActivation::plan(tokens, width(), policy, saved);
    s.up = SavedActivation::plan(tokens, width(), policy, saved);
  }
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
  std::int64_t most = ((rows + parts - 1) / parts + 15) / 16 * 16;
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

void Mlp::project(ConstMat x, Mat to_gate, Mat to_up, Saved& s, Pass& pass) const {
  const std::array both{FusedLinear{&gate, to_gate, &s.gate_proj}, FusedLinear{&up, to_up, &s.up_proj}};
  forward_fused(std::span(both).subspan(gate ? 0 : 1), x, pass);
}

void Mlp::activate(ConstMat gated, ConstMat upped, Mat h) const {
  if (gate) kernels::gated_act(activation, gated, upped, h);
  else if (activation != kernels::Activation::xielu) kernels::activate(activation, upped, h);
  else if (!dry_run()) kernels::xielu(xielu.values(), upped, h);
}

void Mlp::activate_backward(ConstMat dh, Mat gated, Mat upped, Pass& pass) const {
  if (gate) return kernels::gated_act_backward(activation, dh, gated, upped);
  if (activation != kernels::Activation::xielu) return kernels::activate_backward(activation, dh, upped);
  auto gradient = [](const ParameterRef& p) { return p ? p.grad().data : nullptr; };
  const kernels::Xielu scalars = dry_run() ? kernels::Xielu{} : xielu.values();
  kernels::xielu_backward(scalars, dh, upped, gradient(xielu.alpha_p), gradient(xielu.alpha_n), pass.arena);
}

void Mlp::forward(ConstMat x, Mat y, Write mode, const Saved& whole, Pass& all) const {
  each_part(x.rows, whole, all, [&](std::int64_t first, std::int64_t count, Saved& s, Pass& pass) {
    auto open = [&](const SavedActivation& kept) {
      return kept ? kept.open(pass.arena) : pass.arena.matrix(count, width());
    };
    Mat gated = gate ? open(s.gate) : Mat{}, upped = open(s.up);
    project(x.slice(first, count), gated, upped, s, pass);
    if (s.gate) s.gate.close(gated);
    if (s.up) s.up.close(upped);
    Mat h = pass.arena.matrix(count, width());
    activate(gated, upped, h);
    down.forward(h, y.slice(first, count), mode, s.down_proj, pass);
  });
}

void Mlp::backward(ConstMat dy, ConstMat x, const Saved& whole, Mat dx, Pass& all) const {
  each_part(x.rows, whole, all, [&](std::int64_t first, std::int64_t count, Saved& s, Pass& pass) {
    ConstMat in = x.slice(first, count), dout = dy.slice(first, count);
    Mat din = dx.empty() ? Mat{} : dx.slice(first, count);
    auto read = [&](const SavedActivation& kept) {
      return kept ? kept.read(pass.arena) : pass.arena.matrix(count, width());
    };
    Mat gated = gate ? read(s.gate) : Mat{}, upped = read(s.up);
    if (!s.up) project(in, gated, upped, s, pass);
    Mat h = pass.arena.matrix(count, width()), dh = pass.arena.matrix(count, width());
    if (down.trains()) activate(gated, upped, h);  // recomputed instead of saved; a frozen projection does not need it
    down.backward(dout, h, s.down_proj, dh, Write::set, pass);
    activate_backward(dh, gated, upped, pass);
    up.backward(upped, in, s.up_proj, din, Write::set, pass);
    if (gate) gate.backward(gated, in, s.gate_proj, din, Write::add, pass);
  });
}

}  // namespace dml
