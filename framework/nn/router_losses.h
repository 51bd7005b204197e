// The losses that keep experts in use, over all mixtures of a model and one micro-batch. Over its N tokens and L
// layers, with f_e the share of tokens · layers sent to expert e and p_e the mean of its probability (softmax of the
// logits):
//
//   balance · E · Σ_e f_e p_e                      Fedus et al. 2021; transformers' load_balancing_loss_func
//   z · mean of log² Σ exp(logits)                  Zoph et al. 2022
//
// A product of two means is no sum over tokens: micro-batches have a loss each, and count by their trained tokens, as
// the rest of the loss does.
#pragma once

#include "core/arena.h"
#include "kernels/routing.h"

namespace dml {

struct RouterLosses {
  double balance = 0, z = 0;  // their factors

  explicit operator bool() const { return balance != 0 || z != 0; }
};

/// The sums of these losses in one pass. Forward adds every layer's tokens, close() computes the losses, backward reads
/// the factors.
class RouterSums {
 public:
  RouterSums() = default;
  RouterSums(RouterLosses losses, std::int64_t experts, Arena& arena);

  bool open() const { return open_; }
  bool wanted() const { return static_cast<bool>(losses_); }
  void add(ConstMat logits, const kernels::Routing& routing, Arena& scratch);
  /// The loss, times `weight`, the trained tokens of the micro-batch.
  double close(double weight);
  /// dlogits += its gradient.
  void add_gradient(ConstMat logits, Mat dlogits) const;

 private:
  RouterLosses losses_;
  kernels::RoutingSums sums_;
  std::span<float> pull_;
  float square_ = 0;
  bool open_ = false;
};

}  // namespace dml
