#include "kernels/embedding.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "core/profile.h"
#include "kernels/simd/loops.h"

namespace dml::kernels {

void embed(std::span<const Token> tokens, const Weight& table, float scale, Mat y, Write mode) {
  ProfileScope profiled("embed");
  DML_CHECK(static_cast<std::int64_t>(tokens.size()) == y.rows && table.cols == y.cols);
  parallel_ranges(y.rows, 16, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t < last; ++t) {
      std::int64_t token = tokens[static_cast<std::size_t>(t)];
      DML_CHECK(token >= 0 && token < table.rows);
      bool direct = mode == Write::set;
      float* row = direct ? y.row(t) : thread_scratch(y.cols).data();
      unpack(table, token, 1, 0, y.cols, row);
      if (!direct) loops().add_scaled(row, scale, y.row(t), y.cols);
      else if (scale != 1) loops().set_scaled(row, scale, row, y.cols);
    }
  });
}

void embed_backward(std::span<const Token> tokens, ConstMat dy, float scale, Mat dtable) {
  for (Token token : tokens) DML_CHECK(token >= 0 && token < dtable.rows);
  embed_part_backward(tokens, 0, dy, scale, dtable);
}

void embed_part(std::span<const Token> tokens, std::int64_t first, const Weight& rows, float scale, Mat y) {
  ProfileScope profiled("embed");
  DML_CHECK(static_cast<std::int64_t>(tokens.size()) == y.rows && rows.cols == y.cols);
  parallel_ranges(y.rows, 16, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t t = from; t < to; ++t)
      if (std::int64_t row = tokens[static_cast<std::size_t>(t)] - first; row >= 0 && row < rows.rows) {
        unpack(rows, row, 1, 0, y.cols, y.row(t));
        if (scale != 1) loops().set_scaled(y.row(t), scale, y.row(t), y.cols);
      }
  });
}

void embed_part_backward(std::span<const Token> tokens, std::int64_t first, ConstMat dy, float scale, Mat drows) {
  ProfileScope profiled("embed_backward");
  DML_CHECK(static_cast<std::int64_t>(tokens.size()) == dy.rows && drows.cols == dy.cols);
  parallel_ranges(dy.cols, 64, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t t = 0; t < dy.rows; ++t)
      if (std::int64_t row = tokens[static_cast<std::size_t>(t)] - first; row >= 0 && row < drows.rows)
        loops().add_scaled(dy.row(t) + from, scale, drows.row(row) + from, to - from);
  });
}

namespace {

// The index of a token in `replaced`; −1 if it is not there.
std::int64_t number_of(Token token, std::span<const std::int32_t> replaced, std::span<const std::int32_t> numbers) {
  auto at = std::ranges::lower_bound(replaced, token);
  return at == replaced.end() || *at != token ? -1 : numbers[static_cast<std::size_t>(at - replaced.begin())];
}

}  // namespace

void embed_rows(std::span<const Token> tokens, std::span<const std::int32_t> replaced,
                std::span<const std::int32_t> numbers, ConstMat rows, float scale, Mat y) {
  ProfileScope profiled("embed");
  DML_CHECK(static_cast<std::int64_t>(tokens.size()) == y.rows && rows.cols == y.cols);
  parallel_ranges(y.rows, 16, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t t = from; t < to; ++t)
      if (std::int64_t row = number_of(tokens[static_cast<std::size_t>(t)], replaced, numbers); row >= 0)
        loops().set_scaled(rows.row(row), scale, y.row(t), y.cols);
  });
}

void embed_rows_backward(std::span<const Token> tokens, std::span<const std::int32_t> replaced,
                         std::span<const std::int32_t> numbers, ConstMat dy, float scale, Mat drows) {
  ProfileScope profiled("embed_backward");
  DML_CHECK(static_cast<std::int64_t>(tokens.size()) == dy.rows && drows.cols == dy.cols);
  parallel_ranges(dy.cols, 64, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t t = 0; t < dy.rows; ++t)
      if (std::int64_t row = number_of(tokens[static_cast<std::size_t>(t)], replaced, numbers); row >= 0)
        loops().add_scaled(dy.row(t) + from, scale, drows.row(row) + from, to - from);
  });
}

}  // namespace dml::kernels
