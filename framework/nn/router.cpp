#include "nn/moe.h"

#include "kernels/elementwise.h"

namespace dml {

Router::Saved Router::plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const {
  Saved s;
  s.logits = saved.matrix(tokens, rule.experts);
  s.routing = {saved.matrix(tokens, rule.experts), saved.matrix(tokens, rule.chosen),
               saved.take<std::int32_t>(tokens * rule.chosen)};
  s.gate = gate.plan(tokens, policy, saved);
  return s;
}

void Router::forward(ConstMat x, const Saved& s, Pass& pass) const {
  Linear::Saved saved = s.gate;
  gate.forward(x, s.logits, Write::set, saved, pass);
  kernels::route(rule, s.logits, s.routing);
  if (pass.routers) pass.routers->add(s.logits, s.routing, pass.arena);
}

void Router::backward(ConstMat dweights, ConstMat x, const Saved& s, Mat dx, Pass& pass) const {
  Arena::Scope scope(pass.arena);
  Mat dlogits = pass.arena.matrix(x.rows, rule.experts);
  kernels::route_backward(rule, s.routing, dweights, dlogits);
  if (pass.routers) pass.routers->add_gradient(s.logits, dlogits);
  gate.backward(dlogits, x, s.gate, dx, Write::add, pass);
}

}  // namespace dml
