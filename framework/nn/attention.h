// Causal grouped-query attention over packed documents:
//   q, k, v = proj(x);  (norms on q and k);  (clip);  rope;  out = softmax(q kᵀ · scale) v per document;  y = or +=
//   o(out).
#pragma once

#include <span>
#include <vector>

#include "kernels/attention.h"
#include "nn/kv_cache.h"
#include "nn/latent.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/projected_heads.h"

namespace dml {

struct Attention {
  kernels::AttentionShape shape;
  Linear q, k, v, o;
  Linear qkv;                          // instead of q, k and v; rows by key/value head: its queries, its key, its value
  Norm q_norm, k_norm;                 // optional
  bool norm_whole = false;             // q_norm and k_norm over the whole width instead of each head
  std::vector<Norm> q_norms, k_norms;  // or one norm per head, each with its own weight (StableLM)
  bool norm_after_rope = false;        // HunYuan; otherwise before rope
  float clip = 0;                      // elements of q, k and v are clamped to ±clip (OLMoE, MPT); 0: not
  bool use_rope = true, local_rope = false;
  Latent latent;       // instead of q, k and v: multi-head latent attention (DeepSeek)
  ParameterRef sinks;  // (heads): attention sinks (gpt-oss)
  const float* frozen_sinks = nullptr;
  std::vector<float> slopes;  // (heads): slopes of ALiBi, instead of rope

  struct Saved {
    SavedActivation q, k, v;                    // the inputs of attention (after norm and rope)
    SavedActivation q_plain, k_plain, v_plain;  // before norms and clip, if there are any
    SavedActivation out;
    Mat lse;
    Latent::Saved latent;
    Linear::Saved q_proj, k_proj, v_proj, qkv_proj, o_proj;
  };

  std::int64_t query_width() const { return shape.heads * shape.head_dim; }
  std::int64_t key_width() const { return shape.kv_heads * shape.head_dim; }
  bool trains() const { return projections_train() || o.trains() || sinks; }

  /// Gradients of attention's inputs (after norm and rope), in scratch memory.
  struct Gradients {
    Mat q, k, v;
  };

  /// Allocates what forward saves. `queries`: how many of the T tokens have a query; `rows`: the number of output rows.
  Saved plan(std::int64_t tokens, std::int64_t queries, std::int64_t rows, SavePolicy policy, Arena& saved) const;
  /// y = or += o(attention(x)), x (T, D), y (T, D), or with `rows` y (rows.size(), D) for the tokens listed.
  void forward(ConstMat x, std::span<const std::int32_t> rows, Mat y, Write mode, Saved& saved, Pass& pass) const;
  bool projections_train() const {
    auto train = [](const std::vector<Norm>& norms) { return !norms.empty() && norms[0].trains(); };
    return latent.trains() || q.trains() || k.trains() || v.trains() || qkv.trains() || q_norm.trains() ||
           k_norm.trains() || train(q_norms) || train(k_norms);
  }
  /// Computes the gradients of q, k and v from dy, of the shape of y in forward, and adds o's parameter gradients. With
  /// `wanted` false, only the latter.
  Gradients backward(ConstMat dy, std::span<const std::int32_t> rows, const Saved& saved, bool wanted,
                     Pass& pass) const;
  /// From the gradients of q, k and v to the input: adds the projections' parameter gradients; sets dx (T, D) unless it
  /// is empty.
  void backward_projections(const Gradients& d, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const;

  /// Generation: x (rows, D) holds the new tokens of several sequences, whose keys and values are appended to the
  /// caches of `layer`. y has the rows of x or, with `ends`, only the rows that it lists: the last
  /// SequenceRows::outputs of every sequence.
  void forward_cached(ConstMat x, std::span<const SequenceRows> sequences, const std::vector<std::int32_t>* ends,
                      std::int64_t layer, Mat y, Pass& pass) const;

 private:
  struct Projected {
    Mat q, k, v;
  };
  /// Runs the attention kernels. If documents share prefixes, the rows of shared prefixes are repeated first.
  void attend(const Projected& p, Mat out, Mat lse, Pass& pass) const;
  void attend_backward(ConstMat dout, const Projected& p, ConstMat out, ConstMat lse, const Gradients& d,
                       Pass& pass) const;
  /// `shape` with the slopes and the current address of the sinks.
  kernels::AttentionShape shape_now() const;
  /// The kernels' output narrowed to the head width that o reads, and a gradient widened back (nn/latent.h).
  Mat narrowed(Mat out, Pass& pass) const;
  Mat widened(Mat dout, Pass& pass) const;
  Projected project(ConstMat x, const std::vector<std::int32_t>* queries, Saved& saved, Pass& pass) const;
  void project_plain(ConstMat x, const std::vector<std::int32_t>* queries, const Projected& to, Saved& saved,
                     Pass& pass) const;
  void rotate(Mat heads, std::span<const std::int32_t> rope_rows, bool backward, const Pass& pass) const;
  HeadNorms q_heads() const { return {q_norm, q_norms, norm_whole, shape.head_dim}; }
  HeadNorms k_heads() const { return {k_norm, k_norms, norm_whole, shape.head_dim}; }
  /// d is zero where what `norms` gave of the `plain` values was clipped.
  void clip_backward(const SavedActivation& plain, const HeadNorms& norms, Mat d, Pass& pass) const;
  void read_cached(const SequenceRows& rows, const Projected& p, std::int64_t layer, Mat out, Mat lse,
                   Pass& pass) const;
};

}  // namespace dml
