// Causal attention over packed documents by streaming softmax (Milakov & Gimelshein 2018; Dao et al. 2022): no T × T
// matrix exists, tiles outside a document or a sliding window are skipped.
#pragma once

#include <cstdint>
#include <span>

#include "core/arena.h"
#include "core/matrix.h"
#include "kernels/cached_rows.h"

namespace dml::kernels {

struct AttentionShape {
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
  float scale = 1;               // of q·k
  float softcap = 0;             // scores become cap · tanh(score / cap); 0: off
  std::int64_t window = 0;       // a position sees itself and the window − 1 before it; 0: everything before it
  const float* sinks = nullptr;  // (heads): a further score in every row's softmax, of a value that is zero (gpt-oss)
  const float* slopes =
      nullptr;  // (heads): ALiBi (Press et al. 2022), the score of position i for j loses slope · (i − j)
};

/// q (T, heads·head_dim), k and v (T, kv_heads·head_dim) → out (T, heads·head_dim), lse (T, heads): log of the sum of
/// exponentials of every row, which the backward pass needs. starts as in PackedBatch.
void attention(const AttentionShape& shape, ConstMat q, ConstMat k, ConstMat v, std::span<const std::int32_t> starts,
               Mat out, Mat lse);

/// Attention of the last M rows of one document: q, out and lse (M, …) of its last M tokens, k and v of all T. The bits
/// of a row do not depend on M.
void attention_tail(const AttentionShape& shape, ConstMat q, ConstMat k, ConstMat v, Mat out, Mat lse);

/// Sets dq, dk, dv from dout. dq may not alias q.
void attention_backward(const AttentionShape& shape, ConstMat dout, ConstMat q, ConstMat k, ConstMat v, ConstMat out,
                        ConstMat lse, std::span<const std::int32_t> starts, Mat dq, Mat dk, Mat dv, Arena& scratch);

/// dsinks (heads) += its gradient, from out and lse as attention() gave them.
void attention_sinks_backward(const AttentionShape& shape, ConstMat dout, ConstMat out, ConstMat lse, float* dsinks,
                              Arena& scratch);
/// Decoding: one query row (heads · head_dim) of a sequence against its cache, whose last row is the newest. The bits
/// do not depend on how the cache's rows are paged.
struct CachedQuery {
  const float* q;
  CachedRows keys, values;
  float* out;  // (heads · head_dim)
};
void attention_decode(const AttentionShape& shape, std::span<const CachedQuery> queries, Arena& scratch);

}  // namespace dml::kernels
