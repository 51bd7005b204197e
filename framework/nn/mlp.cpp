#include "nn/mlp.h"

namespace dml {

Mlp::Saved Mlp::plan(std::int64_t tokens, bool keep, Arena& saved) const {
  Saved s;
  if (keep) {
    if (gate) s.gate = saved.matrix(tokens, width());
    s.up = saved.matrix(tokens, width());
  }
  s.gate_proj = gate.plan(tokens, saved);
  s.up_proj = up.plan(tokens, saved);
  s.down_proj = down.plan(tokens, saved);
  return s;
}

void Mlp::project(ConstMat x, Saved& s, Pass& pass) const {
  if (!s.up.data) {
    if (gate) s.gate = pass.arena.matrix(x.rows, width());
    s.up = pass.arena.matrix(x.rows, width());
  }
  if (gate) gate.forward(x, s.gate, Write::set, s.gate_proj, pass);
  up.forward(x, s.up, Write::set, s.up_proj, pass);
}

void Mlp::activate(const Saved& s, Mat h) const {
  if (gate)
    kernels::gated_act(activation, s.gate, s.up, h);
  else
    kernels::activate(activation, s.up, h);
}

void Mlp::forward(ConstMat x, Mat y, Write mode, Saved& s, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  bool keep = s.up.data != nullptr;
  project(x, s, pass);
  Mat h = pass.arena.matrix(x.rows, width());
  activate(s, h);
  down.forward(h, y, mode, s.down_proj, pass);
  if (!keep) s.gate = s.up = {};  // they lay in scratch
}

void Mlp::backward(ConstMat dy, ConstMat x, Saved& s, Mat dx, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  if (!s.up.data) project(x, s, pass);
  Mat h = pass.arena.matrix(dy.rows, width()), dh = pass.arena.matrix(dy.rows, width());
  if (down.trains()) activate(s, h);  // cheaper to redo than to keep; a frozen projection does not ask for it
  down.backward(dy, h, s.down_proj, dh, Write::set, pass);
  if (gate)
    kernels::gated_act_backward(activation, dh, s.gate, s.up);
  else
    kernels::activate_backward(activation, dh, s.up);
  up.backward(s.up, x, s.up_proj, dx, Write::set, pass);
  if (gate) gate.backward(s.gate, x, s.gate_proj, dx, Write::add, pass);
}

}  // namespace dml
