#include "nn/projected_heads.h"

#include <algorithm>

#include "core/parallel.h"

namespace dml {
namespace {

constexpr std::int64_t kRowsPerTask = 256;

// Views every head as a row, for norms over heads.
Mat as_rows(Mat m, std::int64_t width) { return {m.data, m.size() / width, width}; }

}  // namespace

void copy_columns(ConstMat from, Columns c, Mat to) {
  parallel_ranges(from.rows, kRowsPerTask, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t)
      for (std::int64_t g = 0; g < c.groups; ++g)
        std::copy_n(from.row(t) + g * c.stride + c.first, c.width, to.row(t) + g * c.width);
  });
}

void put_columns(ConstMat from, Columns c, Mat to) {
  parallel_ranges(from.rows, kRowsPerTask, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t)
      for (std::int64_t g = 0; g < c.groups; ++g)
        std::copy_n(from.row(t) + g * c.width, c.width, to.row(t) + g * c.stride + c.first);
  });
}

void HeadNorms::forward(Mat x, Mat y, Arena& scratch) const {
  if (each.empty()) return one.forward(as_rows(x, width(x)), as_rows(y, width(x)));
  Arena::Scope scope(scratch);
  Mat head = scratch.matrix(x.rows, head_dim);
  for (std::int64_t h = 0; h < std::ssize(each); ++h) {
    copy_columns(x, one_head(h), head);
    each[static_cast<std::size_t>(h)].forward(head, head);
    put_columns(head, one_head(h), y);
  }
}

void HeadNorms::backward(Mat d, Mat x, Arena& scratch) const {
  if (each.empty())
    return one.backward(as_rows(d, width(x)), as_rows(x, width(x)), as_rows(d, width(x)), Write::set, scratch);
  Arena::Scope scope(scratch);
  Mat head = scratch.matrix(x.rows, head_dim), dhead = scratch.matrix(x.rows, head_dim);
  for (std::int64_t h = 0; h < std::ssize(each); ++h) {
    copy_columns(x, one_head(h), head);
    copy_columns(d, one_head(h), dhead);
    each[static_cast<std::size_t>(h)].backward(dhead, head, dhead, Write::set, scratch);
    put_columns(dhead, one_head(h), d);
  }
}

}  // namespace dml
