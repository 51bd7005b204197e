// Causal attention over packed documents with an online softmax (Milakov & Gimelshein 2018; FlashAttention, Dao et al.
// 2022): no T × T matrix is stored, and tiles outside of a document or a sliding window are skipped.
#pragma once

#include <cstdint>
#include <span>

#include "core/arena.h"
#include "core/matrix.h"
#include "kernels/cached_rows.h"

namespace dml::kernels {

struct AttentionShape {
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1;
  float scale = 1;               // factor of q·k
  float softcap = 0;             // scores become cap · tanh(score / cap); 0: off
  std::int64_t window = 0;       // a position sees itself and the window − 1 before it; 0: everything before it
  const float* sinks = nullptr;  // (heads): an additional score in every row's softmax, whose value is zero (gpt-oss)
  const float* slopes =
      nullptr;  // (heads): ALiBi (Press et al. 2022) subtracts slope · (i − j) from the score of query i and key j
};

/// q (T, heads·head_dim), k and v (T, kv_heads·head_dim) → out (T, heads·head_dim) and, for the backward pass, lse (T,
/// heads): log Σ exp(scores) of every row. starts as in PackedBatch.
void attention(const AttentionShape& shape, ConstMat q, ConstMat k, ConstMat v, std::span<const std::int32_t> starts,
               Mat out, Mat lse);

/// Attention of the last M tokens of one document: q, out and lse have M rows, k and v the T rows of the document. The
/// bits of a row do not depend on M.
void attention_tail(const AttentionShape& shape, ConstMat q, ConstMat k, ConstMat v, Mat out, Mat lse);

/// Sets dq, dk and dv from dout. dq must not alias q.
void attention_backward(const AttentionShape& shape, ConstMat dout, ConstMat q, ConstMat k, ConstMat v, ConstMat out,
                        ConstMat lse, std::span<const std::int32_t> starts, Mat dq, Mat dk, Mat dv, Arena& scratch);

/// dsinks (heads) += the gradient of the sinks; out and lse are those of attention().
void attention_sinks_backward(const AttentionShape& shape, ConstMat dout, ConstMat out, ConstMat lse, float* dsinks,
                              Arena& scratch);
/// Decoding: one query (heads · head_dim) of a sequence, whose cache includes the query's own position as the last row.
/// The bits do not depend on the pages of the cache.
struct CachedQuery {
  const float* q;
  CachedRows keys, values;
  float* out;  // (heads · head_dim)
};
void attention_decode(const AttentionShape& shape, std::span<const CachedQuery> queries, Arena& scratch);

}  // namespace dml::kernels
