// The feed-forward part of a layer: an MLP or a mixture of experts.
#pragma once

#include "nn/mlp.h"
#include "nn/moe.h"

namespace dml {

struct FeedForward : Mlp {
  Moe moe;  // with experts, the MLP is empty

  struct Saved {
    Mlp::Saved mlp;
    Moe::Saved moe;
  };

  bool trains() const { return moe ? moe.trains() : Mlp::trains(); }
  Saved plan(std::int64_t tokens, SavePolicy policy, Arena& saved) const {
    if (moe) return {{}, moe.plan(tokens, policy, saved)};
    return {Mlp::plan(tokens, policy, saved), {}};
  }
  void forward(ConstMat x, Mat y, Write mode, const Saved& saved, Pass& pass) const {
    moe ? moe.forward(x, y, mode, saved.moe, pass) : Mlp::forward(x, y, mode, saved.mlp, pass);
  }
  void backward(ConstMat dy, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const {
    moe ? moe.backward(dy, x, saved.moe, dx, pass) : Mlp::backward(dy, x, saved.mlp, dx, pass);
  }
};

}  // namespace dml
