// The auxiliary losses of routers over all mixture layers and one micro-batch. For N tokens and L layers, with f_e the
// share of tokens · layers routed to expert e and p_e the mean of its probability (softmax of the logits):
//
//   balance · E · Σ_e f_e p_e                      Fedus et al. 2021; transformers' load_balancing_loss_func
//   z · mean of log² Σ exp(logits)                  Zoph et al. 2022
//
// A product of two means is not a sum over tokens, so every micro-batch has its own loss, weighted by the
// denominator of its other losses: its trained tokens, pairs …
#pragma once

#include "core/arena.h"
#include "kernels/routing.h"

namespace dml {

struct RouterLosses {
  double balance = 0, z = 0;  // their factors

  explicit operator bool() const { return balance != 0 || z != 0; }
};

/// Accumulates these losses in one pass: forward adds every layer's tokens, close() computes the losses, backward adds
/// their gradients.
class RouterSums {
 public:
  RouterSums() = default;
  RouterSums(RouterLosses losses, std::int64_t experts, Arena& arena);

  bool open() const { return open_; }
  bool wanted() const { return static_cast<bool>(losses_); }
  void add(ConstMat logits, const kernels::Routing& routing, Arena& scratch);
  /// Returns the loss times `weight`, the denominator of the micro-batch's other losses.
  double close(double weight);
  /// dlogits (T, E) += the gradient of the losses.
  void add_gradient(ConstMat logits, Mat dlogits) const;

 private:
  RouterLosses losses_;
  kernels::RoutingSums sums_;
  std::span<float> dprobability_;
  float square_ = 0;
  bool open_ = false;
};

}  // namespace dml
