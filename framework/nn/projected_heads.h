// Queries, keys and values between their projections and the rope: columns of a fused projection, and norms of heads.
#pragma once

#include <vector>

#include "kernels/attention.h"
#include "nn/norm.h"

namespace dml {

/// Columns of a matrix in equal groups: `width` of each, from `first` on.
struct Columns {
  std::int64_t groups, stride, first, width;
};
/// Copies columns of `from` to the dense matrix `to`; put_columns() copies a dense matrix back into such columns.
void copy_columns(ConstMat from, Columns c, Mat to);
void put_columns(ConstMat from, Columns c, Mat to);

/// The layout of one fused projection: per key/value head its queries, key and value.
struct FusedColumns {
  const kernels::AttentionShape& shape;

  std::int64_t queries() const { return shape.heads / shape.kv_heads * shape.head_dim; }
  std::int64_t stride() const { return queries() + 2 * shape.head_dim; }
  Columns q() const { return {shape.kv_heads, stride(), 0, queries()}; }
  Columns k() const { return {shape.kv_heads, stride(), queries(), shape.head_dim}; }
  Columns v() const { return {shape.kv_heads, stride(), queries() + shape.head_dim, shape.head_dim}; }
};

/// The norms of q or k: one for the heads together or each by itself, or one norm per head.
struct HeadNorms {
  const Norm& one;
  const std::vector<Norm>& each;
  bool whole;
  std::int64_t head_dim;

  explicit operator bool() const { return one || !each.empty(); }
  void forward(Mat x, Mat y, Arena& scratch) const;
  /// In place: d comes in as the gradient of the outputs and goes out as that of x.
  void backward(Mat d, Mat x, Arena& scratch) const;

 private:
  std::int64_t width(Mat x) const { return whole ? x.cols : head_dim; }
  Columns one_head(std::int64_t h) const { return {1, 0, h * head_dim, head_dim}; }
};

}  // namespace dml
