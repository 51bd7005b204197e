// The tasks of attention.cpp and attention_backward.cpp, each for one thread. An instruction set may have its own
// implementation (simd/loops.h), used for documents long enough to amortise its preparation.
#pragma once

#include <cstdint>

#include "core/matrix.h"
#include "kernels/attention.h"

namespace dml::kernels {

constexpr std::int64_t kIsaAttentionMinRows =
    256;  // the shortest document for it; since only its length decides, the bits of a document do not depend on others

/// Whether the instruction set's own implementation is used for a document of `rows` rows.
inline bool uses_isa_attention(const AttentionShape& shape, std::int64_t rows) {
  return rows >= kIsaAttentionMinRows && !shape.slopes;
}

/// Forward: sets rows [row, row + rows), of the document that begins at `begin`, of one head in out and lse.
struct AttentionRows {
  static constexpr std::int64_t kMaxRows = 512;
  const AttentionShape& shape;
  ConstMat q, k, v;
  Mat out, lse;
  std::int64_t head, begin, row, rows;
  std::int64_t queries_from = 0;  // the row of the batch that is row 0 of q, out and lse
};

/// Backward: sets dk and dv of the key ranges strip, strip + strips, … (of kKeys keys each) of the document [begin,
/// end) and one key head, and adds their contribution to dq.
struct AttentionKeys {
  static constexpr std::int64_t kKeys = 256;
  const AttentionShape& shape;
  ConstMat dout, q, k, v, lse, dots;  // dots (T, heads): dout · out
  Mat dq, dk, dv;
  std::int64_t kv, begin, end, strip, strips;
};

/// Implementations with packed products (attention_packed.cpp), for ProductLoops::attention_rows and attention_keys.
void attention_rows_packed(const AttentionRows& task);
void attention_keys_packed(const AttentionKeys& task);

}  // namespace dml::kernels
