// The tasks that attention.cpp and attention_backward.cpp give to one thread. An instruction set may have its own
// implementation (simd/loops.h), for documents long enough to be worth its preparations.
#pragma once

#include <cstdint>

#include "core/matrix.h"
#include "kernels/attention.h"

namespace dml::kernels {

constexpr std::int64_t kIsaAttentionMinRows =
    256;  // shortest document for it; the length of a document alone decides, so its bits do not depend on others

/// Whether the instruction set's own implementation computes a document of `rows` rows.
inline bool uses_isa_attention(const AttentionShape& shape, std::int64_t rows) {
  return rows >= kIsaAttentionMinRows && !shape.slopes;
}

/// Sets rows [row, row + rows) of one head in out and lse; they belong to the document that begins at `begin`.
struct AttentionRows {
  static constexpr std::int64_t kMostRows = 512;
  const AttentionShape& shape;
  ConstMat q, k, v;
  Mat out, lse;
  std::int64_t head, begin, row, rows;
  std::int64_t queries_from = 0;  // the row that the first row of q, out and lse stands for
};

/// Of the document [begin, end) and one head of keys, every `strips`-th run of kKeys keys from the `strip`-th on: sets
/// their dk and dv, and adds to dq what they give.
struct AttentionKeys {
  static constexpr std::int64_t kKeys = 256;
  const AttentionShape& shape;
  ConstMat dout, q, k, v, lse, dots;  // dots (T, heads): dout · out
  Mat dq, dk, dv;
  std::int64_t kv, begin, end, strip, strips;
};

/// Both on panels of the products in use (attention_packed.cpp), where those say that attention gains by it.
void attention_rows_packed(const AttentionRows& task);
void attention_keys_packed(const AttentionKeys& task);

}  // namespace dml::kernels
