#include "nn/router_losses.h"

#include <algorithm>

#include "core/parallel.h"

namespace dml {

RouterSums::RouterSums(RouterLosses losses, std::int64_t experts, Arena& arena) : losses_(losses), open_(true) {
  if (!losses) return;
  sums_.chosen = arena.take<double>(experts);
  sums_.probability = arena.take<double>(experts);
  dprobability_ = arena.take<float>(experts);
  if (dry_run()) return;
  std::ranges::fill(sums_.chosen, 0);
  std::ranges::fill(sums_.probability, 0);
}

void RouterSums::add(ConstMat logits, const kernels::Routing& routing, Arena& scratch) {
  if (open_ && losses_) kernels::add_routing(logits, routing, sums_, scratch);
}

double RouterSums::close(double weight) {
  open_ = false;
  if (!losses_ || dry_run() || sums_.tokens == 0) return 0;
  const auto n = static_cast<double>(sums_.tokens), experts = static_cast<double>(dprobability_.size());
  double balance = 0;
  for (std::size_t e = 0; e < dprobability_.size(); ++e) {
    const double share = experts * sums_.chosen[e] / n;
    balance += share * sums_.probability[e] / n;
    dprobability_[e] = static_cast<float>(weight * losses_.balance * share / n);
  }
  square_ = static_cast<float>(weight * losses_.z / n);
  return weight * (losses_.balance * balance + losses_.z * sums_.square / n);
}

void RouterSums::add_gradient(ConstMat logits, Mat dlogits) const {
  if (losses_) kernels::add_routing_gradient(logits, dprobability_, square_, dlogits);
}

}  // namespace dml
