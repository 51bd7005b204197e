// One layer of the decoder, with the switches that distinguish the families:
//
//   pre-norm (Llama …)      mid = x + attention(norm(x));                      y = mid + mlp(norm(mid))
//   sandwich (Gemma 2)      mid = x + norm'(attention(norm(x)));               y = mid + norm'(mlp(norm(mid)))
//   post-norm (OLMo 2)      mid = x + norm'(attention(x));                     y = mid + norm'(mlp(mid))
//   parallel (StableLM)     y = x + attention(norm(x)) + mlp(norm2(x)), or with a single norm for both
//
// The outputs of attention and MLP are multiplied by residual_scale (Granite), after the post norm. A layer may output
// only some rows (the last layer: those with a label); attention still reads the keys and values of all rows.
#pragma once

#include <span>
#include <vector>

#include "nn/attention.h"
#include "nn/feed_forward.h"
#include "nn/norm.h"

namespace dml {

struct DecoderLayer {
  Norm attention_norm, attention_post_norm, mlp_norm, mlp_post_norm;  // each is optional
  Attention attention;
  FeedForward mlp;
  bool parallel = false;
  float residual_scale = 1;

  struct Saved {
    SavedActivation mid;                     // (rows, D); not used in a parallel layer
    SavedActivation attention_out, mlp_out;  // before the post norms
    Attention::Saved attention;
    FeedForward::Saved mlp;
  };

  /// All its linear layers, including those of experts.
  std::vector<Linear*> linears();
  bool trains() const {
    return attention.trains() || mlp.trains() || attention_norm.trains() || attention_post_norm.trains() ||
           mlp_norm.trains() || mlp_post_norm.trains();
  }
  /// Allocates what forward saves for T tokens, of which the layer outputs `rows`.
  Saved plan(std::int64_t tokens, std::int64_t rows, SavePolicy policy, Arena& saved) const;
  /// x (T, D) → y (rows, D). `rows`: indices of the output rows; empty: all. y must not be x.
  void forward(ConstMat x, std::span<const std::int32_t> rows, Mat y, Saved& saved, Pass& pass) const;
  /// `d` holds dy (rows, D) and is overwritten. Sets dx (T, D) unless it is empty; dx may be `d` if all rows were
  /// output.
  void backward(Mat d, const SavedActivation& x, std::span<const std::int32_t> rows, const Saved& saved, Mat dx,
                Pass& pass) const;
  /// Generation: adds the layer's output to y, which holds x (rows, D) and may be x. With `ends`, y holds only the rows
  /// that it lists (the last SequenceRows::outputs of every sequence), which are multiplied as single rows; of the
  /// other rows only keys and values are computed.
  void forward_cached(ConstMat x, std::span<const SequenceRows> sequences, const std::vector<std::int32_t>* ends,
                      std::int64_t layer, Mat y, Pass& pass) const;

 private:
  ConstMat normed(const Norm& norm, ConstMat x, Pass& pass) const;
  /// Recomputes the norm of a saved activation; in place if the activation was rounded.
  ConstMat recompute_norm(const Norm& norm, const SavedActivation& x, Pass& pass) const;
  /// y += residual_scale · block, where block(out, mode) sets or adds to `out`.
  template <class Block>
  void add_block(Block block, Mat y, Pass& pass) const;
  /// residual_scale · d, in scratch memory unless the factor is 1.
  ConstMat scaled(ConstMat d, Pass& pass) const;
  void backward_parallel(Mat d, const SavedActivation& x, const Saved& saved, Mat dx, Pass& pass) const;
};

}  // namespace dml
