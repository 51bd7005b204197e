#include "kernels/embed_columns.h"

#include "core/error.h"
#include "core/parallel.h"

namespace dml::kernels {

void embed_columns(std::span<const Token> tokens, ConstMat table, Mat y) {
  DML_CHECK(static_cast<std::int64_t>(tokens.size()) == y.rows && table.rows == y.cols);
  parallel_ranges(y.rows, 64, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      std::int64_t token = tokens[static_cast<std::size_t>(t)];
      DML_CHECK(token >= 0 && token < table.cols);
      for (std::int64_t r = 0; r < y.cols; ++r) y.row(t)[r] = table.row(r)[token];
    }
  });
}

void embed_columns_backward(std::span<const Token> tokens, ConstMat dy, Mat dtable) {
  DML_CHECK(static_cast<std::int64_t>(tokens.size()) == dy.rows && dtable.rows == dy.cols);
  parallel_ranges(dtable.rows, 1, [&](std::int64_t r, std::int64_t) {
    for (std::int64_t t = 0; t < dy.rows; ++t) {
      std::int64_t token = tokens[static_cast<std::size_t>(t)];
      DML_CHECK(token >= 0 && token < dtable.cols);
      dtable.row(r)[token] += dy.row(t)[r];
    }
  });
}

}  // namespace dml::kernels
