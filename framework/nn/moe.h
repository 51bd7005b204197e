// A mixture of experts instead of an MLP: y = Σ over a token's k experts of weight · expert(x), + shared(x).
//
// A router chooses the experts of every token (kernels/routing.h). Rows are gathered in the order of the experts;
// nothing is padded and no token is dropped. The routing weight multiplies the inner activation, which is equivalent
// since down is linear; so backward computes its gradient without the expert's output:
//   h = act(gate(x)) · up(x);  y += down(w · h) + w · bias;  dw = (downᵀ dy) · h + dy · bias
// where bias is that of down plus that of an adapter on it.
//
// The products of all experts with rows run as one batch (nn/linear.h, LinearRows). Rows are processed in chunks, of
// whole experts where they fit, so that scratch memory does not depend on the routing. If experts are fully trained and
// their values or gradients are sharded, each expert is processed once and in order, with or without rows, since other
// ranks take part in its communication. Backward always processes experts from the last to the first, so the order of
// sums does not depend on sharding.
#pragma once

#include <vector>

#include "kernels/routing.h"
#include "nn/mlp.h"

namespace dml {

struct Router {
  kernels::RoutingRule rule;
  Linear gate;  // (E, D)

  struct Saved {
    Mat logits;
    kernels::Routing routing;
    Linear::Saved gate;
  };
  Saved plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const;
  void forward(ConstMat x, const Saved& saved, Pass& pass) const;
  /// dweights (T, k). Adds parameter gradients; adds to dx unless it is empty.
  void backward(ConstMat dweights, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const;
};

struct Moe {
  Router router;
  std::vector<Mlp> experts;  // E of them
  Mlp shared;                // processes every token; optional
  Linear shared_gate;        // (1, D): its sigmoid multiplies the shared expert's output; optional
  float jitter = 0;          // in training, x is multiplied by U(1 − jitter, 1 + jitter) (Mixtral)
  std::uint32_t stream = 0;  // random stream of the jitter

  struct Saved {
    Router::Saved router;
    kernels::Dispatch dispatch;
    GateUp inner;              // (T · k, F) in the order of the experts; empty if backward recomputes them
    std::span<float> low[3];   // gate, up, down: the adapters' x Aᵀ, row after row
    SavedActivation plain[3];  // DoRA: outputs before scaling (T · k, out)
    Mat norms[3];              // DoRA: (E, out)
    Mlp::Saved shared;
    Linear::Saved shared_gate;
    Mat shared_score;            // (T, 1)
    SavedActivation shared_out;  // (T, D), if it has a gate
  };

  explicit operator bool() const { return !experts.empty(); }
  bool trains() const;
  bool experts_train() const;
  std::int64_t width() const { return experts[0].up.out(); }

  Saved plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const;
  void forward(ConstMat x, Mat y, Write mode, const Saved& saved, Pass& pass) const;
  /// Adds parameter gradients; sets dx unless it is empty. Overwrites `saved`.
  void backward(ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const;

 private:
  enum Role { kGate, kUp, kDown };
  struct Chunk;
  bool trains_whole() const;
  bool one_at_a_time(bool backwards) const;
  LinearRows layer(const Chunk& chunk, Role role, std::int64_t i, const Saved& saved) const;
  template <class F>
  void each_bias(const Chunk& chunk, const Saved& saved, const Pass& pass, F f) const;
  template <class F>
  void each_chunk(std::int64_t tokens, const Saved& saved, bool backwards, Pass& pass, F chunk) const;
  const Linear& projection(std::int64_t expert, Role role) const;
  Linear::Saved part(const Saved& saved, Role role, std::int64_t expert, std::int64_t row, std::int64_t count) const;
  void project(const Chunk& chunk, Role role, ConstMat x, Mat y, const Saved& saved, Pass& pass) const;
  void project_backward(const Chunk& chunk, Role role, ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Write mode,
                        Pass& pass) const;
  void forward_experts(ConstMat x, Mat y, const Saved& saved, Pass& pass) const;
  void backward_experts(ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Mat dweights, Pass& pass) const;
  void forward_shared(ConstMat x, Mat y, const Saved& saved, Pass& pass) const;
  void backward_shared(ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const;
  void add_jitter(Mat x, Pass& pass) const;
};

}  // namespace dml
