// A mixture of experts in the place of an MLP: y = Σ over a token's k experts of weight · expert(x), + shared(x).
//
// A router chooses the experts of every token (kernels/routing.h). An expert sees the rows of its tokens alone,
// gathered one after the other in the order of the experts; nothing is padded and no token is dropped. A row's weight
// multiplies the inner activation, since down is linear, so backward finds the weight's gradient without the expert's
// output:
//   h = act(gate(x)) · up(x);  y += down(w · h) + w · bias;  dw = (downᵀ dy) · h + dy · bias
// bias being down's own and that of an adapter on it.
//
// The products of all experts that have rows are made at once (nn/linear.h, LinearRows). Rows are worked on some at a
// time, whole experts where they fit, so that scratch memory does not depend on the routing. Where experts are trained
// in full and their values or gradients are sharded, each is processed once and in order, with or without rows, since
// other ranks wait for its exchange. Backward processes them from the last to the first in any case, so the order of
// sums is the same.
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
  /// Adds to dx unless it is empty.
  void backward(ConstMat dweights, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const;
};

struct Moe {
  Router router;
  std::vector<Mlp> experts;  // gate, up and down of each
  Mlp shared;                // reads every token; may be absent
  Linear shared_gate;        // (1, D): the shared expert's output times its sigmoid; may be absent
  float jitter = 0;          // training: x is multiplied by U(1 − jitter, 1 + jitter), as Mixtral does
  std::uint32_t stream = 0;  // the address of those numbers

  struct Saved {
    Router::Saved router;
    kernels::Dispatch dispatch;
    SavedActivation gate, up;  // (T · k, F) in the order of the rows; empty when backward is to compute them again
    std::span<float> low[3];   // of gate, up, down: adapters' x Aᵀ, row after row
    SavedActivation plain[3];  // DoRA: outputs before scaling (T · k, out)
    Mat norms[3];              // DoRA: (E, out)
    Mlp::Saved shared;
    Linear::Saved shared_gate;
    Mat shared_score;            // (T, 1)
    SavedActivation shared_out;  // (T, D), where it has a gate
  };

  explicit operator bool() const { return !experts.empty(); }
  bool trains() const;
  bool experts_train() const;
  std::int64_t width() const { return experts[0].up.out(); }

  Saved plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const;
  void forward(ConstMat x, Mat y, Write mode, const Saved& saved, Pass& pass) const;
  /// Sets dx unless it is empty. Consumes saved.
  void backward(ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const;

 private:
  enum Role { kGate, kUp, kDown };
  struct Chunk;
  bool trains_whole() const;
  bool alone(bool backwards) const;
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
