// What one thread does of attention at a time: the pieces that attention.cpp and attention_backward.cpp hand out, and
// that an instruction set may do in its own way (simd/loops.h), for documents that are long enough to be worth its
// preparations.
#pragma once

#include <cstdint>

#include "core/matrix.h"
#include "kernels/attention.h"

namespace dml::kernels {

constexpr std::int64_t kOwnWayRows = 256;  // of a document, whose length alone decides: its bits are its own

/// Whether the instruction set may do a document of so many rows in its own way.
inline bool in_own_way(const AttentionShape& shape, std::int64_t rows) { return rows >= kOwnWayRows && !shape.slopes; }

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

}  // namespace dml::kernels
