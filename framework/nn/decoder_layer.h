// One block of the decoder, with the switches that tell the families apart:
//
//   pre-norm (Llama …)      mid = x + attention(norm(x));                      y = mid + mlp(norm(mid))
//   sandwich (Gemma 2)      mid = x + norm'(attention(norm(x)));               y = mid + norm'(mlp(norm(mid)))
//   post-norm (OLMo 2)      mid = x + norm'(attention(x));                     y = mid + norm'(mlp(mid))
//   parallel (StableLM)     y = x + attention(norm(x)) + mlp(norm2(x)), or with one norm for both
//
// The outputs of attention and MLP are multiplied by residual_scale (Granite), after a post norm.
// A layer may output some rows only (the last layer: those that feed a label); attention still reads keys and values of
// all.
#pragma once

#include <span>

#include "nn/attention.h"
#include "nn/feed_forward.h"
#include "nn/norm.h"

namespace dml {

struct DecoderLayer {
  Norm attention_norm, attention_post_norm, mlp_norm, mlp_post_norm;  // each may be absent
  Attention attention;
  FeedForward mlp;
  bool parallel = false;
  float residual_scale = 1;

  struct Saved {
    SavedActivation mid;                     // (rows, D); in a parallel layer not used
    SavedActivation attention_out, mlp_out;  // before the post norms
    Attention::Saved attention;
    FeedForward::Saved mlp;
  };

  bool trains() const {
    return attention.trains() || mlp.trains() || attention_norm.trains() || attention_post_norm.trains() ||
           mlp_norm.trains() || mlp_post_norm.trains();
  }
  /// T tokens, of which the layer outputs `rows`.
  Saved plan(std::int64_t tokens, std::int64_t rows, SavePolicy policy, Arena& saved) const;
  /// x (T, D) → y (rows, D). rows: which ones are output; empty: all. y is not x.
  void forward(ConstMat x, std::span<const std::int32_t> rows, Mat y, Saved& saved, Pass& pass) const;
  /// d comes in as dy and is consumed. Sets dx (T, D) unless it is empty; dx may be d where all rows were output.
  void backward(Mat d, const SavedActivation& x, std::span<const std::int32_t> rows, const Saved& saved, Mat dx,
                Pass& pass) const;
  /// Generation: y comes in as x (rows, D), and may be x; or as the rows that `ends` lists, SequenceRows::outputs of
  /// every sequence, where nothing else is wanted of this layer but its keys and values. Listed rows are multiplied
  /// each for itself.
  void forward_cached(ConstMat x, std::span<const SequenceRows> sequences, const std::vector<std::int32_t>* ends,
                      std::int64_t layer, Mat y, Pass& pass) const;

 private:
  ConstMat normed(const Norm& norm, ConstMat x, Pass& pass) const;
  /// The norm of a saved activation; in the same memory where the activation was rounded.
  ConstMat normed_again(const Norm& norm, const SavedActivation& x, Pass& pass) const;
  /// y += residual_scale · what block(out, mode) sets or adds to `out`.
  template <class Block>
  void add_block(Block block, Mat y, Pass& pass) const;
  /// residual_scale · d, in scratch unless it is d.
  ConstMat scaled(ConstMat d, Pass& pass) const;
  void backward_parallel(Mat d, const SavedActivation& x, const Saved& saved, Mat dx, Pass& pass) const;
};

}  // namespace dml
