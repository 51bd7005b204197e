// The projections of multi-head latent attention (MLA, DeepSeek-V2, 2024): queries, keys and values of all heads are
// computed from two low-rank vectors with a norm each,
//   q = q_b(norm(q_a(x)));   [c | k_rope] = kv_a(x);   [k | v] of every head = kv_b(norm(c))
// and the part of a key that rope rotates is shared by all heads. A head of q and k has nope + rope elements, a head of
// v `value`.
//
// The attention kernels take heads of one width, so a head of q and k is stored as [rope | nope | zeros], a head of v
// as [v | zeros]. The order of terms does not change a score, and rope rotates the first part of a head, as in families
// with partial rope.
#pragma once

#include "nn/linear.h"
#include "nn/norm.h"

namespace dml {

struct Latent {
  Linear q_a, q_b;  // q_a is optional; without it q_b reads x
  Linear kv_a, kv_b;
  Norm q_norm, kv_norm;
  std::int64_t heads = 0, nope = 0, rope = 0, value = 0;  // widths of the parts of a head
  bool interleaved = true;                                // rope rotates pairs (2j, 2j + 1), else (j, j + rope / 2)

  struct Saved {
    SavedActivation q_low, kv_low;  // before the norms
    Linear::Saved q_a, q_b, kv_a, kv_b;
  };

  explicit operator bool() const { return static_cast<bool>(kv_a); }
  /// The head width in the kernels.
  std::int64_t head_dim() const { return nope + rope > value ? nope + rope : value; }
  bool trains() const {
    return q_a.trains() || q_b.trains() || kv_a.trains() || kv_b.trains() || q_norm.trains() || kv_norm.trains();
  }

  Saved plan(std::int64_t tokens, std::int64_t queries, SavePolicy policy, Arena& saved) const;
  /// x (T, D) → k, v (T, heads · head_dim); queries (Q, D), the rows of x that have a query (x itself if all have) → q
  /// (Q, heads · head_dim). All before rope.
  void forward(ConstMat x, ConstMat queries, const Saved& saved, Mat q, Mat k, Mat v, Pass& pass,
               Pass& query_pass) const;
  /// For passes in which all rows have a query. Adds parameter gradients; sets dx (T, D) unless it is empty.
  void backward(ConstMat dq, ConstMat dk, ConstMat dv, ConstMat x, const Saved& saved, Mat dx, Pass& pass) const;

 private:
  std::int64_t rope_row(std::int64_t i) const { return interleaved ? i % (rope / 2) * 2 + i / (rope / 2) : i; }
};

/// to (T, heads · head_dim) = every head of from (T, heads · width), padded with zeros.
void widen_heads(ConstMat from, std::int64_t heads, Mat to);

}  // namespace dml
